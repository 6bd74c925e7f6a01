package allocate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
	"github.com/reservation-operator/reservation-operator/reconciler/requeue"
)

// StatusReconciler writes the status of each Reservation, and keeps a deleted one until its nodes are free. It
// decides nothing about nodes.
type StatusReconciler struct {
	// Client reads Reservations and Nodes from a cache and writes Reservations.
	Client client.Client
	// View says what was decided, Ledger what was seen at the nodes.
	View   *View
	Ledger *ledger.Ledger
}

// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservations/status,verbs=patch

// undecided is the pause after which a Reservation is looked at again of which no decision knows yet. Its publication
// comes first, unless decisions fail.
const undecided = time.Second

// Reconcile writes one Reservation's status, if it changed.
func (r *StatusReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, req.Name)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil // the cache is behind: nothing went wrong
	}
	return result, client.IgnoreNotFound(err)
}

func (r *StatusReconciler) reconcile(ctx context.Context, name string) (ctrl.Result, error) {
	reservation := &v1alpha1.Reservation{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, reservation); err != nil {
		if apierrors.IsNotFound(err) {
			report.ForgetReservation(name)
		}
		return ctrl.Result{}, err
	}
	if done, err := r.finalize(ctx, reservation); done || err != nil {
		return ctrl.Result{}, err
	}
	before := reservation.DeepCopy()
	facts, decided, err := r.gather(ctx, reservation)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !decided {
		failure := r.View.Failure()
		if failure != nil {
			noDecision(failure).Mark(reservation)
		}
		return ctrl.Result{RequeueAfter: undecided}, r.write(ctx, before, reservation)
	}
	status, outcome := Describe(facts)
	status.Conditions = reservation.Status.Conditions
	reservation.Status = status
	outcome.Mark(reservation)
	markFence(reservation, facts.Doubt)
	markExclusive(reservation, facts.Nodes)
	c := status.Counts
	report.ReservationNodes(name, reservation.Spec.Tenant, int(c.Locked), int(c.Releasing), int(c.Locking+c.Pending))
	return ctrl.Result{}, r.write(ctx, before, reservation)
}

// write stores a status that changed, by one patch. All of it is this operator's, so it is written as a whole, and
// the resourceVersion keeps a cache that is behind from undoing what was written last.
func (r *StatusReconciler) write(ctx context.Context, before, after *v1alpha1.Reservation) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	change := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, after, change, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("writing the status of reservation %s: %w", after.Name, err)
	}
	return nil
}

func noDecision(err error) report.Outcome {
	if apierrors.IsForbidden(err) {
		return report.Waiting(v1alpha1.ReasonForbidden, fmt.Sprintf(
			"no node can be allocated: %s. Check with: kubectl auth can-i --list --namespace reservation-operator "+
				"--as=system:serviceaccount:reservation-operator:reservation-operator; give the operator the roles of config/rbac", err), 0)
	}
	return report.Retry(v1alpha1.ReasonProgressingWithRetry, fmt.Sprintf("no node can be allocated: %s", err), err)
}

// gather returns the facts, and false while no decision has read this generation of the spec: its publication brings
// the Reservation back.
func (r *StatusReconciler) gather(ctx context.Context, reservation *v1alpha1.Reservation) (ReservationFacts, bool, error) {
	generation, granted, pending := r.View.Reservation(reservation.Name)
	if generation != reservation.Generation {
		return ReservationFacts{}, false, nil
	}
	facts := ReservationFacts{Reservation: reservation, Pending: pending, Nodes: make([]NodeFacts, 0, len(granted)), Doubt: r.View.Doubt()}
	for _, name := range granted {
		grant, _, _, _ := r.View.Grant(name)
		n := NodeFacts{Name: name, Phase: grant.Phase, Report: r.Ledger.Get(name)}
		node := &corev1.Node{}
		switch err := r.Client.Get(ctx, types.NamespacedName{Name: name}, node, client.UnsafeDisableDeepCopy); {
		case err == nil:
			n.Exists = true
			n.Locked = node.Labels[v1alpha1.LabelTenant] == reservation.Spec.Tenant &&
				node.Annotations[v1alpha1.AnnotationReservation] == reservation.Name
			n.InOrder = grant.Phase == Held && lock.Holds(node, reservation)
			n.Unschedulable = unschedulable(node)
			if since, ok := lock.Since(node); ok {
				n.Since = &since
			}
		case !apierrors.IsNotFound(err):
			return ReservationFacts{}, false, fmt.Errorf("reading node %s: %w", name, err)
		}
		facts.Nodes = append(facts.Nodes, n)
	}
	return facts, true, nil
}

func markFence(r *v1alpha1.Reservation, doubt string) {
	c := metav1.Condition{
		Type: v1alpha1.ConditionFenceIntact, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonFenceProven,
		Message: "the API server was seen to refuse foreign pods on reserved nodes", ObservedGeneration: r.Generation,
	}
	if doubt != "" {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonFenceNotProven
		c.Message = "the API server was not seen to refuse foreign pods on reserved nodes; " + doubt
	}
	conditions.Set(r, &c)
}

func markExclusive(r *v1alpha1.Reservation, nodes []NodeFacts) {
	var foreign []string
	for _, n := range nodes {
		for _, pod := range n.Report.ForeignPods {
			foreign = append(foreign, pod+" on "+n.Name)
		}
	}
	c := metav1.Condition{
		Type: v1alpha1.ConditionExclusive, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonExclusive,
		Message: "no foreign pod runs on the nodes", ObservedGeneration: r.Generation,
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonForeignPods
		c.Message = "these pods of others run on the nodes; they are left alone, and no new ones are let in: " +
			strings.Join(foreign[:min(len(foreign), 10)], ", ") + more(len(foreign)-10)
	}
	conditions.Set(r, &c)
}

// SetupWithManager registers the reconciler: a Reservation's status is written again when its spec, the decision
// about it, or one of its nodes changed, gathering the changes of a moment (see statusDelay).
func (r *StatusReconciler) SetupWithManager(mgr ctrl.Manager) error {
	delay := func(name string) time.Duration {
		reservation := &v1alpha1.Reservation{}
		_ = r.Client.Get(context.Background(), client.ObjectKey{Name: name}, reservation, client.UnsafeDisableDeepCopy) // none has no names
		return statusDelay(max(len(r.View.Nodes(name)), len(reservation.Spec.ReservedNodes)))
	}
	wake := &requeue.Wake{Delay: delay}
	r.View.Watch(nil, wake.Add)
	r.Ledger.Watch(func(node string) {
		if grant, granted, _, _ := r.View.Grant(node); granted {
			wake.Add(grant.Reservation)
		}
	})
	self := batched(delay, func(o client.Object) []string { return []string{o.GetName()} })
	holder := batched(delay, func(o client.Object) []string {
		var names []string
		if name := o.GetAnnotations()[v1alpha1.AnnotationReservation]; name != "" {
			names = append(names, name)
		}
		if grant, granted, _, _ := r.View.Grant(o.GetName()); granted {
			names = append(names, grant.Reservation) // it may have taken the node over, with the lock of another
		}
		return names
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("reservation").
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: requeue.AfterErrors()}).
		Watches(&v1alpha1.Reservation{}, self, builder.WithPredicates(predicate.Or(
			claimChanged, predicate.Funcs{UpdateFunc: writtenChanged}))).
		Watches(&corev1.Node{}, holder, builder.WithPredicates(lockChanged)).
		WatchesRawSource(wake).
		Complete(r)
}

// statusDelay is how long the changes of a Reservation with so many nodes are gathered into one status. Reading its nodes,
// and storing a status that lists them, costs the more the more there are: while a thousand nodes are being locked, it
// must not take the time that locking needs.
func statusDelay(nodes int) time.Duration {
	return min(200*time.Millisecond+time.Duration(nodes)*time.Millisecond, 2*time.Second)
}

// writtenChanged passes what this reconciler writes, besides the revision: a status that was left as it is because the
// cache did not know of the last write is looked at again when it does.
func writtenChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*v1alpha1.Reservation), e.ObjectNew.(*v1alpha1.Reservation)
	return !equality.Semantic.DeepEqual(before.Status, after.Status) ||
		!slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers()) ||
		e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationRevision] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationRevision]
}

// lockChanged passes what a Reservation's status reads of a Node.
var lockChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return Shows(e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node))
}}

// Shows reports whether two states of one node differ in what its Reservation's status says of it.
func Shows(before, after *corev1.Node) bool {
	return unschedulable(before) != unschedulable(after) || !lock.Same(before, after)
}

// taintUninitialized is what a node bears until its cloud provider has seen to it (Kubernetes, "Cloud Controller
// Manager Administration").
const taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// unschedulable reports whether a node takes no new pods for a reason that is not ours: somebody cordoned it, or its
// cloud provider has not initialised it yet. Whether its kubelet is ready is not asked: that comes and goes by itself.
func unschedulable(node *corev1.Node) bool {
	_, ours := node.Annotations[v1alpha1.AnnotationCordoned]
	return node.Spec.Unschedulable && !ours || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == taintUninitialized
	})
}
