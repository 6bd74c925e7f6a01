package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BindingScope says which nodes the injected affinity allows.
//
// +kubebuilder:validation:Enum=Tenant;Reservation
type BindingScope string

const (
	// ScopeTenant allows any node that is reserved for the tenant, as on the page (spec.md).
	ScopeTenant BindingScope = "Tenant"
	// ScopeReservation allows only nodes of the named Reservation.
	ScopeReservation BindingScope = "Reservation"
)

// ReservationBindingSpec says which pods of its namespace go to the nodes of which Reservation.
//
// +kubebuilder:validation:XValidation:rule="!has(self.scope) || self.scope == 'Tenant'",fieldPath=".scope",message="the scope Reservation is not supported yet; use Tenant"
type ReservationBindingSpec struct {
	// The Reservation whose nodes the pods go to. It must accept this namespace (its spec.namespaces).
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a Reservation"
	// +required
	ReservationName string `json:"reservationName"`

	// The gate: the pods of this namespace that get the injection when they are created. {} is every pod.
	//
	// +required
	PodSelector *metav1.LabelSelector `json:"podSelector"`

	// Whether the pods get the required node affinity reserved.tenant In [tenant].
	//
	// +kubebuilder:default=true
	// +optional
	InjectAffinity *bool `json:"injectAffinity,omitempty"`

	// Whether the pods get the toleration of the Reservation's taint.
	//
	// +kubebuilder:default=true
	// +optional
	InjectToleration *bool `json:"injectToleration,omitempty"`

	// Tenant: any node of the tenant. Reservation: only the nodes of the named Reservation (not supported yet).
	//
	// +kubebuilder:default=Tenant
	// +optional
	Scope BindingScope `json:"scope,omitempty"`
}

// ReservationBindingStatus says whether the binding counts.
type ReservationBindingStatus struct {
	// The generation of the spec that the status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready: the Reservation accepts the binding and pods get the injection.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The tenant of the Reservation, while the binding counts.
	//
	// +optional
	Tenant string `json:"tenant,omitempty"`
}

// ReservationBinding sends a namespace's pods to the nodes of a Reservation: pods that match its selector get the
// node affinity and the toleration when they are created.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=rsvb
// +kubebuilder:printcolumn:name="Reservation",type=string,JSONPath=`.spec.reservationName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Tenant",type=string,priority=1,JSONPath=`.status.tenant`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ReservationBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which pods, and to which nodes.
	//
	// +required
	Spec ReservationBindingSpec `json:"spec"`
	// Whether the binding counts, and why not.
	//
	// +optional
	Status ReservationBindingStatus `json:"status,omitempty,omitzero"`
}

// InjectsAffinity reports whether the binding's pods get the node affinity (true by default).
func (b *ReservationBinding) InjectsAffinity() bool {
	return b.Spec.InjectAffinity == nil || *b.Spec.InjectAffinity
}

// InjectsToleration reports whether the binding's pods get the toleration (true by default).
func (b *ReservationBinding) InjectsToleration() bool {
	return b.Spec.InjectToleration == nil || *b.Spec.InjectToleration
}

// GetConditions returns the conditions of the status.
func (b *ReservationBinding) GetConditions() []metav1.Condition { return b.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (b *ReservationBinding) SetConditions(c []metav1.Condition) { b.Status.Conditions = c }

// ReservationBindingList is a list of ReservationBindings.
//
// +kubebuilder:object:root=true
type ReservationBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ReservationBinding `json:"items"`
}
