package allocate

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/requeue"
)

// allNodes is the one key of the worker.
const allNodes = "all-nodes"

// SetupWithManager registers the worker: it decides again when a Reservation's spec, a Node's labels or lock, the
// index, a binding or the set of drained nodes changed, gathering the changes of a tenth of a second.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	delay := func(string) time.Duration { return batch }
	wake := &requeue.Wake{Delay: delay}
	r.Ledger.Watch(func(node string) {
		if r.Ledger.Get(node).Drained {
			wake.Add(allNodes)
		}
	})
	// One decision at the start, also in a cluster where nothing happens: it proves the fence.
	wake.Add(allNodes)
	all := batched(delay, func(client.Object) []string { return []string{allNodes} })
	return ctrl.NewControllerManagedBy(mgr).
		Named("allocate").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: requeue.AfterErrors()}).
		Watches(&v1alpha1.Reservation{}, all, builder.WithPredicates(claimChanged)).
		Watches(&v1alpha1.ReservationBinding{}, all, builder.WithPredicates(claimChanged)).
		Watches(&corev1.Node{}, all, builder.WithPredicates(r.nodeChanged())).
		Watches(&corev1.ConfigMap{}, all, builder.WithPredicates(r.isIndex())).
		WatchesRawSource(wake).
		Complete(r)
}

// claimChanged passes what can change what a Reservation claims, or whether a binding counts: spec and deletion, and one
// that was made anew while the watch was down. A finalizer that was torn off is put back.
var claimChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
		controllerutil.ContainsFinalizer(e.ObjectOld, v1alpha1.FinalizerRelease) && !controllerutil.ContainsFinalizer(e.ObjectNew, v1alpha1.FinalizerRelease) ||
		e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}}

// nodeChanged passes what allocation reads of a Node (see Concerns).
func (r *Reconciler) nodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return Concerns(e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node), func() (Grant, *v1alpha1.Reservation) {
			grant, granted, _, _ := r.View.Grant(e.ObjectNew.GetName())
			holder := &v1alpha1.Reservation{}
			if !granted || r.Client.Get(context.Background(), client.ObjectKey{Name: grant.Reservation}, holder, client.UnsafeDisableDeepCopy) != nil {
				return Grant{}, nil
			}
			return grant, holder
		})
	}}
}

// Concerns reports whether a change of a Node may change a decision: heartbeats cannot, nor can a lock that came on as the
// index says, since a thousand locks are no reason to decide about all nodes again and again. granted is asked for the
// node's Grant and the Reservation that has it, nil if there is none.
func Concerns(was, is *corev1.Node, granted func() (Grant, *v1alpha1.Reservation)) bool {
	before, after := NodeOf(was), NodeOf(is)
	if was.UID != is.UID {
		return true
	}
	if before.Holder == after.Holder && before.Deleting == after.Deleting && before.Marked == after.Marked && maps.Equal(before.Labels, after.Labels) {
		return false
	}
	grant, holder := granted()
	return holder == nil || !Confirms(before, after, grant, holder)
}

func (r *Reconciler) isIndex() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetName() == v1alpha1.IndexName && o.GetNamespace() == r.Namespace
	})
}

// batched returns a handler that enqueues the keys of the old and the new object after a delay, so that all changes
// of a key are answered once.
func batched(delay func(key string) time.Duration, keys func(client.Object) []string) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue, objects ...client.Object) {
		for _, o := range objects {
			for _, key := range keys(o) {
				q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: key}}, delay(key))
			}
		}
	}
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, e event.CreateEvent, q queue) { add(q, e.Object) },
		UpdateFunc:  func(_ context.Context, e event.UpdateEvent, q queue) { add(q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc:  func(_ context.Context, e event.DeleteEvent, q queue) { add(q, e.Object) },
		GenericFunc: func(_ context.Context, e event.GenericEvent, q queue) { add(q, e.Object) },
	}
}
