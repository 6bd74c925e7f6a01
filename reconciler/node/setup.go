package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
	"github.com/reservation-operator/reservation-operator/reconciler/requeue"
)

// SetupWithManager registers the reconciler with a queue of nodes. A node is looked at when its grant changed, when
// anything that a lock is made of changed on it, when its Reservation's spec changed, and when a pod that it waits
// for did. Heartbeats wake nobody.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, pods *Watcher) error {
	granted := &requeue.Wake{}
	r.View.Watch(granted.Add, nil)
	concurrency := r.Concurrency
	if concurrency == 0 {
		concurrency = 16
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("node").
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, RateLimiter: requeue.AfterErrors()}).
		For(&corev1.Node{}, builder.WithPredicates(lockChanged)).
		Watches(&v1alpha1.Reservation{}, handler.EnqueueRequestsFromMapFunc(r.nodesOf),
			builder.WithPredicates(specChanged)).
		WatchesRawSource(granted).
		WatchesRawSource(&pods.changed).
		Complete(r)
}

// lockChanged passes what a lock is made of, nodes that come and go, and those whose kubelet goes and comes back.
var lockChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	return before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		unreachable(before) != unreachable(after) || !lock.Same(before, after)
}}

// specChanged passes a changed spec, and a Reservation that was made anew while the watch was down.
var specChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
}}

func (r *Reconciler) nodesOf(_ context.Context, reservation client.Object) []reconcile.Request {
	nodes := r.View.Nodes(reservation.GetName())
	requests := make([]reconcile.Request, 0, len(nodes))
	for _, node := range nodes {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: node}})
	}
	return requests
}
