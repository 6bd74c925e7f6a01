package v1alpha1

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReservationSpec says which nodes belong to which tenant, and how they are given back.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodeSelector) || has(self.reservedNodes)",message="at least one of nodeSelector and reservedNodes is required"
// +kubebuilder:validation:XValidation:rule="!has(self.evictAfter) || !has(self.deleteAfter) || duration(self.deleteAfter) >= duration(self.evictAfter)",fieldPath=".deleteAfter",message="must not be shorter than evictAfter: pods are evicted before they are deleted"
type ReservationSpec struct {
	// The tenant that the nodes belong to. It becomes the value of the node label reserved.tenant and of the node
	// taint reserved, so it must be a valid label value; a purely numeric one is refused, because tolerations with
	// the operators Gt and Lt compare numbers. It cannot be changed: make a new Reservation instead.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must be a valid label value: at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9]+$')",message="must not be purely numeric; put a letter in it"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable; make a new Reservation for another tenant"
	// +required
	Tenant string `json:"tenant"`

	// The pool that the nodes come from. Alone, it reserves every matching node, as nodes come and go. Together
	// with reservedNodes it is a check: a named node that it does not match is reported and not locked.
	//
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// The names of the nodes to reserve: exactly these. A node that does not exist yet is locked when it appears.
	// A node that is taken off the list is released: cordoned if the tenant's pods run on it, and freed when they
	// have ended. An empty list reserves nothing.
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=5000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	ReservedNodes []string `json:"reservedNodes,omitzero"`

	// Whether to taint the nodes as well as to label them. Without the taint, other pods are still refused by the
	// API server's admission, but the scheduler does not know why and keeps trying.
	//
	// +kubebuilder:default=true
	// +optional
	ApplyTaint *bool `json:"applyTaint,omitempty"`

	// The effect of the taint. NoExecute evicts every running pod that does not tolerate it, without asking
	// PodDisruptionBudgets. With PreferNoSchedule, as without a taint, the scheduler may choose a reserved node for
	// another pod, which the API server then refuses, and keep trying while free nodes are there.
	//
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	// +kubebuilder:default=NoSchedule
	// +optional
	TaintEffect corev1.TaintEffect `json:"taintEffect,omitempty"`

	// Whether to evict the tenant's pods when a node is released instead of waiting for them to end. Evictions
	// respect PodDisruptionBudgets.
	//
	// +optional
	EvictOnRelease bool `json:"evictOnRelease,omitempty"`

	// How long a release waits for the tenant's pods to end before it evicts them, such as 24h. Never by default.
	//
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be a positive duration such as 30s, 10m or 24h"
	// +optional
	EvictAfter *metav1.Duration `json:"evictAfter,omitempty"`

	// The longest termination grace period that a pod gets once its eviction is due, one that is ending already
	// included; whole seconds. The pod's own by default.
	//
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s, such as 30s, 10m or 24h"
	// +optional
	EvictGracePeriod *metav1.Duration `json:"evictGracePeriod,omitempty"`

	// How long after a release began the pods that PodDisruptionBudgets still hold are deleted all the same. Never
	// by default. Pods on a node that does not answer are not.
	//
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be a positive duration such as 30s, 10m or 24h"
	// +optional
	DeleteAfter *metav1.Duration `json:"deleteAfter,omitempty"`

	// The namespaces whose pods and ReservationBindings this Reservation accepts. By default the one that is named
	// like the tenant.
	//
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
}

// PendingReason says in one word why a claimed node is not held.
//
// +kubebuilder:validation:Enum=NotFound;SelectorMismatch;HeldBy;ReleasingFrom;NodeDeleting;IndexFull;FenceNotProven
type PendingReason string

// Why a claimed node is not held.
const (
	// PendingNotFound: no node of that name exists (yet).
	PendingNotFound PendingReason = "NotFound"
	// PendingSelectorMismatch: the node exists, but nodeSelector does not match its labels.
	PendingSelectorMismatch PendingReason = "SelectorMismatch"
	// PendingHeldBy: another Reservation holds the node; it keeps it until it gives it up.
	PendingHeldBy PendingReason = "HeldBy"
	// PendingReleasingFrom: the node is being released by another tenant and comes when its pods have ended.
	PendingReleasingFrom PendingReason = "ReleasingFrom"
	// PendingNodeDeleting: the node is about to be deleted.
	PendingNodeDeleting PendingReason = "NodeDeleting"
	// PendingIndexFull: the index has no room for more reserved nodes.
	PendingIndexFull PendingReason = "IndexFull"
	// PendingFenceNotProven: granted, but the API server does not yet refuse foreign pods there.
	PendingFenceNotProven PendingReason = "FenceNotProven"
)

// PendingNode is a node that a Reservation claims and does not hold.
type PendingNode struct {
	// The node.
	Name string `json:"name"`
	// Why it is not held.
	Reason PendingReason `json:"reason"`
	// What the reason names: the holding Reservation for HeldBy, the tenant for ReleasingFrom.
	//
	// +optional
	By string `json:"by,omitempty"`
}

// PodOwner is what owns some of the pods that a release waits for.
type PodOwner struct {
	// The namespace of the pods and their owner.
	Namespace string `json:"namespace"`
	// The kind of the controller, such as Job or StatefulSet; Pod for a pod without one.
	Kind string `json:"kind"`
	// Its name.
	Name string `json:"name"`
	// How many of its pods are left.
	Pods int32 `json:"pods"`
}

// ReleasingNode is a node on its way back to the general pool.
type ReleasingNode struct {
	// The node.
	Name string `json:"name"`
	// When its release began; not set until the node bears it.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// The tenant's pods that still run there.
	//
	// +optional
	PodsLeft int32 `json:"podsLeft,omitempty"`
	// Whose pods they are, at most 10 owners, sorted.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Owners []PodOwner `json:"owners,omitempty"`
	// What the release waits for, in one sentence, and until when, as far as that is known: when the pods will be
	// evicted or deleted, and when the grace period of those that are ending is over.
	//
	// +optional
	WaitingFor string `json:"waitingFor,omitempty"`
}

// NodeCounts says how many nodes of a Reservation are where. The lists beside it are cut; this is not.
type NodeCounts struct {
	// Held and locked.
	//
	// +optional
	Locked int32 `json:"locked,omitempty"`
	// Of the locked ones, those that take no new pods now: somebody else cordoned them, or the cloud provider has not
	// initialised them yet. They are the tenant's all the same.
	//
	// +optional
	Unschedulable int32 `json:"unschedulable,omitempty"`
	// Held, and the lock is on its way.
	//
	// +optional
	Locking int32 `json:"locking,omitempty"`
	// On their way back to the general pool.
	//
	// +optional
	Releasing int32 `json:"releasing,omitempty"`
	// Claimed and not held, or held while there is no such node.
	//
	// +optional
	Pending int32 `json:"pending,omitempty"`
	// Those of the pending that come by themselves, when a release or a deletion is over.
	//
	// +optional
	Awaited int32 `json:"awaited,omitempty"`
}

// ReservationStatus says which nodes are locked now and why others are not. Its lists are sorted by name.
type ReservationStatus struct {
	// The generation of the spec that the status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready, Reconciling, Stalled; FenceIntact: the API server refuses foreign pods on reserved nodes; Exclusive:
	// no foreign pod runs on a locked node.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// How many nodes bear this Reservation's lock now: held or still releasing.
	//
	// +optional
	Reserved int32 `json:"reserved"`

	// How many nodes are where.
	//
	// +optional
	Counts NodeCounts `json:"counts,omitempty,omitzero"`

	// The nodes granted to this Reservation: held or releasing.
	//
	// +listType=set
	// +optional
	Nodes []string `json:"nodes,omitempty"`

	// The namespaces whose pods and bindings are accepted.
	//
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`

	// The nodes that are being released, at most 100.
	//
	// +listType=map
	// +listMapKey=name
	// +optional
	Releasing []ReleasingNode `json:"releasing,omitempty"`

	// The nodes that are claimed and not held, with the reason, at most 100.
	//
	// +listType=map
	// +listMapKey=name
	// +optional
	Pending []PendingNode `json:"pending,omitempty"`

	// How many pods of other tenants ran on the nodes when they were locked and still do. They are reported, never
	// killed.
	//
	// +optional
	ForeignPods int32 `json:"foreignPods,omitempty"`

	// The revision of the source that last changed this Reservation.
	//
	// +optional
	Revision string `json:"revision,omitempty"`
}

// Reservation locks nodes for a tenant: a label and a taint on each of them, and an API server that refuses every
// other tenant's pods there. Nodes that it no longer names are released without disturbing what runs on them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rsv
// +kubebuilder:printcolumn:name="Tenant",type=string,JSONPath=`.spec.tenant`
// +kubebuilder:printcolumn:name="Reserved",type=integer,JSONPath=`.status.reserved`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ready",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Revision",type=string,priority=1,JSONPath=`.status.revision`
type Reservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which nodes, for whom, and how they are given back.
	//
	// +required
	Spec ReservationSpec `json:"spec"`
	// What is locked now, and why the rest is not.
	//
	// +optional
	Status ReservationStatus `json:"status,omitempty,omitzero"`
}

// Taints reports whether the Reservation's nodes are tainted as well as labelled (true by default).
func (r *Reservation) Taints() bool {
	return r.Spec.ApplyTaint == nil || *r.Spec.ApplyTaint
}

// Effect returns the effect of the Reservation's taint (NoSchedule by default).
func (r *Reservation) Effect() corev1.TaintEffect {
	if r.Spec.TaintEffect == "" {
		return corev1.TaintEffectNoSchedule
	}
	return r.Spec.TaintEffect
}

// CompareClaims orders Reservations by whose claim to a free node comes first (DESIGN.md, Law 10): the older one's, then
// that of the smaller UID, then of the smaller name. One that is not created yet is the youngest.
func CompareClaims(a, b *Reservation) int {
	if none := a.CreationTimestamp.IsZero(); none != b.CreationTimestamp.IsZero() {
		if none {
			return 1
		}
		return -1
	}
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name),
	)
}

// AcceptedNamespaces returns the namespaces whose pods and bindings the Reservation accepts, in the order written:
// the one named like the tenant if none is named. The caller must not change the slice.
func (r *Reservation) AcceptedNamespaces() []string {
	if len(r.Spec.Namespaces) > 0 {
		return r.Spec.Namespaces
	}
	return []string{r.Spec.Tenant}
}

// GetConditions returns the conditions of the status.
func (r *Reservation) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (r *Reservation) SetConditions(c []metav1.Condition) { r.Status.Conditions = c }

// ReservationList is a list of Reservations.
//
// +kubebuilder:object:root=true
type ReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Reservation `json:"items"`
}
