package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

const (
	// retryForbidden is the pause after a write that the API server forbade: a person must change a role first.
	retryForbidden = 15 * time.Second
)

// Reconciler does the next step of one node at a time; different nodes go side by side.
type Reconciler struct {
	// Client reads Nodes and Reservations from a cache and writes Nodes and evictions.
	Client client.Client
	// Live reads past every cache: pods, and Nodes before their last patch.
	Live client.Reader
	// Pods watches the pods of the nodes that wait for them.
	Pods PodWatcher
	// View says what is granted, and Ledger is told what was seen.
	View   *allocate.View
	Ledger *ledger.Ledger
	// Events takes the few events that a release is worth.
	Events events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// Exempt are the namespaces whose pods may run on every node, so that nobody is told of them.
	Exempt []string
	// Concurrency is how many nodes are worked on at once; 0 means 16.
	Concurrency int

	census census
	locks  lockCounts
}

// PodWatcher watches the pods of single nodes. Watch begins, and is harmless when it has begun; whenever a pod of the
// node changes, the node is reconciled. Forget ends it. Both return at once.
type PodWatcher interface {
	Watch(node string)
	Forget(node string)
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;delete
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=list
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=get
// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservationbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile reads the node, decides its next step and does it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, node, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.Pods.Forget(req.Name)
			r.census.forget(req.Name)
			r.locks.forget(req.Name)
			r.Ledger.Set(req.Name, ledger.Report{})
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s, version, err := r.gather(ctx, node)
	if err != nil {
		return ctrl.Result{}, err
	}
	step := Next(s)
	if step.Action == List {
		if s, err = r.list(ctx, s); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err) // a Node that is gone says so by an event
		}
		step = Next(s)
	}
	return r.do(ctx, s, step, version)
}

// gather reads everything but the pods. The version is that of the index that grants the node.
func (r *Reconciler) gather(ctx context.Context, node *corev1.Node) (Snapshot, int64, error) {
	s := Snapshot{Node: node, Now: r.Clock.Now()}
	var version int64
	s.Grant, s.Granted, version, s.Enforced = r.View.Grant(node.Name)
	if !s.Granted || s.Grant.Reservation == allocate.Orphan {
		return s, version, nil
	}
	var err error
	if s.Reservation, err = reservationOf(ctx, r.Client, s.Grant); err != nil {
		return s, version, err
	}
	s.Locks = r.locks.of(s)
	return s, version, nil
}

// reservationOf reads the Reservation of a grant; nil if it is gone. It may be the cache's own: a copy of a thousand names
// for each of a thousand nodes would be most of the work. Nothing here changes what was read.
func reservationOf(ctx context.Context, reader client.Reader, g allocate.Grant) (*v1alpha1.Reservation, error) {
	reservation := &v1alpha1.Reservation{}
	switch err := reader.Get(ctx, types.NamespacedName{Name: g.Reservation}, reservation, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading reservation %s: %w", g.Reservation, err)
	}
	return reservation, nil
}

// list reads the Node and then its pods past the cache, and keeps those pods that hold its tenant's lock in place: a
// node is never called empty by a list that is older than the last write to it.
func (r *Reconciler) list(ctx context.Context, s Snapshot) (Snapshot, error) {
	node := &corev1.Node{}
	err := r.Live.Get(ctx, types.NamespacedName{Name: s.Node.Name}, node)
	if err != nil {
		return s, fmt.Errorf("reading node %s: %w", s.Node.Name, err)
	}
	s.Node = node
	if s.Reservation == nil && s.Grant.Reservation != allocate.Orphan {
		// Without a lock on the node, nothing else says whose pods keep it: a cache that is behind must not.
		if s.Reservation, err = reservationOf(ctx, r.Live, s.Grant); err != nil {
			return s, err
		}
	}
	pods, err := r.podsOn(ctx, node.Name)
	if err != nil {
		return s, err
	}
	tenant := tenantOf(s.Node, s.Reservation)
	var namespaces []string
	if s.Reservation != nil && s.Reservation.Spec.Tenant == tenant {
		namespaces = s.Reservation.AcceptedNamespaces()
	} else if namespaces, err = r.namespacesOf(ctx, tenant); err != nil {
		return s, err
	}
	s.Listed = true
	for i := range pods {
		pod := &pods[i]
		counts := Occupies(pod, tenant, namespaces) || s.givesUp(pod)
		if !counts && Occupies(withoutOwner(pod), tenant, namespaces) {
			owned, err := r.isOwned(ctx, pod, node)
			if err != nil {
				return s, err
			}
			counts = !owned
			if owned && ofDaemonSet(pod) && slices.Contains(namespaces, pod.Namespace) {
				s.Daemons = append(s.Daemons, *pod)
			}
		}
		if counts {
			s.Pods = append(s.Pods, *pod)
		}
	}
	byName := func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(s.Pods, byName)
	slices.SortFunc(s.Daemons, byName)
	return s, nil
}

// givesUp reports whether a pod belongs to who gives the node up before it ever bore its lock: a handover that was
// called off. While the node is held, such pods are welcome.
func (s Snapshot) givesUp(pod *corev1.Pod) bool {
	return s.Grant.Phase != allocate.Held && s.Reservation != nil &&
		Occupies(pod, s.Reservation.Spec.Tenant, s.Reservation.AcceptedNamespaces())
}

// isOwned reports whether the DaemonSet or Node that one of the tenant's pods names as its owner exists. Who may write
// pods may name any owner, and a pod that outlived its DaemonSet is like one without.
func (r *Reconciler) isOwned(ctx context.Context, pod *corev1.Pod, node *corev1.Node) (bool, error) {
	owner := metav1.GetControllerOf(pod)
	if owner.Kind == "Node" {
		return static(pod, node), nil
	}
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}, set)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the owner of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return err == nil && set.UID == owner.UID, nil
}

func (r *Reconciler) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	selector := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", node)}
	if err := r.Live.List(ctx, &pods, selector); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	return pods.Items, nil
}

// namespacesOf returns the namespaces of a tenant whose Reservation no longer has the node or is gone: those of its
// other Reservations, and the one named like it.
func (r *Reconciler) namespacesOf(ctx context.Context, tenant string) ([]string, error) {
	var all v1alpha1.ReservationList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing reservations: %w", err)
	}
	namespaces := []string{tenant}
	for i := range all.Items {
		if all.Items[i].Spec.Tenant == tenant {
			namespaces = append(namespaces, all.Items[i].AcceptedNamespaces()...)
		}
	}
	return namespaces, nil
}

// do carries out one step and reports it.
func (r *Reconciler) do(ctx context.Context, s Snapshot, step Step, version int64) (ctrl.Result, error) {
	name := s.Node.Name
	said := ledger.Report{
		PodsLeft: int32(len(s.Pods)), Owners: owners(s.Pods), WaitingFor: step.WaitingFor, Reason: step.Reason, Message: step.Message,
	}
	if step.Action == Wait || step.Action == Evict {
		r.Pods.Watch(name)
	} else {
		r.Pods.Forget(name)
	}
	switch step.Action {
	case Patch:
		return r.patch(ctx, s, step)
	case Evict:
		return r.evict(ctx, s, step, said)
	case Drained:
		said.Drained, said.IndexVersion = true, version
	case Rest:
		if s.Granted && s.Grant.Phase == allocate.Held && step.Reason == "" {
			return r.countForeigners(ctx, s)
		}
	}
	r.say(ctx, s, said)
	return ctrl.Result{RequeueAfter: step.After}, nil
}

// say reports what was seen, and tells the people concerned when a release begins to be held up.
func (r *Reconciler) say(ctx context.Context, s Snapshot, said ledger.Report) {
	before := r.Ledger.Get(s.Node.Name).Reason
	r.Ledger.Set(s.Node.Name, said)
	if said.Reason != before && report.BlocksRelease(said.Reason) {
		r.emit(ctx, s, said.Reason, "")
	}
}

// patch writes the one change of a step. A conflict means that the cache was behind: the Node's next event brings it
// back, and the short pause is for the case that this event is already here.
func (r *Reconciler) patch(ctx context.Context, s Snapshot, step Step) (ctrl.Result, error) {
	change := client.MergeFromWithOptions(s.Node, client.MergeFromWithOptimisticLock{})
	err := r.Client.Patch(ctx, step.Node, change, client.FieldOwner(v1alpha1.FieldManager))
	switch {
	case err == nil:
		r.census.forget(s.Node.Name) // whatever was counted, it was under another lock
		suspect := ""
		if s.Grant.Phase == allocate.Held {
			suspect = r.locks.locked(s, step.Node)
		} else {
			r.locks.forget(s.Node.Name)
		}
		r.Ledger.Set(s.Node.Name, ledger.Report{PodsLeft: int32(len(s.Pods)), Owners: owners(s.Pods), WaitingFor: step.WaitingFor})
		r.announce(ctx, s, step, suspect)
		return ctrl.Result{RequeueAfter: recheck}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: 20 * time.Millisecond}, nil
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case apierrors.IsForbidden(err):
		if r.Ledger.Get(s.Node.Name).Reason != v1alpha1.ReasonNodePatchForbidden {
			logf.FromContext(ctx).Error(err, "a node may not be changed; it is tried again once in a while", "again", retryForbidden)
		}
		r.Ledger.Set(s.Node.Name, ledger.Report{
			Reason: v1alpha1.ReasonNodePatchForbidden, Message: report.NodePatchForbidden(s.Node.Name, err),
		})
		return ctrl.Result{RequeueAfter: retryForbidden}, nil
	default:
		r.Ledger.Set(s.Node.Name, ledger.Report{
			Reason: v1alpha1.ReasonNodePatchFailed, Message: fmt.Sprintf("node %s: %s", s.Node.Name, err),
		})
		return ctrl.Result{}, fmt.Errorf("patching node %s: %w", s.Node.Name, err)
	}
}

func (r *Reconciler) announce(ctx context.Context, s Snapshot, step Step, suspect string) {
	if step.Event == "" {
		return
	}
	if since, ok := lock.Since(s.Node); ok && step.Event == v1alpha1.ReasonNodeReleased {
		report.NodeReleased(s.Now.Sub(since))
	}
	r.emit(ctx, s, step.Event, suspect)
}

// emit tells of a node: on the Node, on its Reservation, and on the bindings through which its tenant knows of it. If
// those cannot be read, they hear nothing, which changes nothing.
func (r *Reconciler) emit(ctx context.Context, s Snapshot, reason, suspect string) {
	var bindings v1alpha1.ReservationBindingList
	if s.Reservation != nil {
		if err := r.Client.List(ctx, &bindings, client.UnsafeDisableDeepCopy); err != nil {
			logf.FromContext(ctx).Error(err, "listing the bindings of a reservation", "reservation", s.Reservation.Name)
		}
	}
	for _, e := range report.NodeEvents(reason, s.Node, suspect, s.Reservation, bindings.Items) {
		e.Emit(r.Events)
	}
}
