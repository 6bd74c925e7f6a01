package binding

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/requeue"
)

// SetupWithManager registers the worker: it decides again when a spec of a ReservationBinding or a Reservation changed,
// when one came or went, when the index is enforced with other bound namespaces, and once at the start. That somebody
// changed what the door registered is the door's own to notice.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	key := reconcile.Request{NamespacedName: types.NamespacedName{Name: "all-bindings"}}
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{key}
	})
	// Without a binding there is no event, and what a former run registered would stay.
	start := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(key)
		return nil
	})
	bound := make(chan event.GenericEvent, 1)
	r.Index.WatchBound(func() {
		select {
		case bound <- event.GenericEvent{Object: &v1alpha1.ReservationBinding{}}:
		default: // one that was not read yet stands for this one too
		}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("binding").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: requeue.AfterErrors()}).
		Watches(&v1alpha1.ReservationBinding{}, one, builder.WithPredicates(specChanged)).
		Watches(&v1alpha1.Reservation{}, one, builder.WithPredicates(specChanged)).
		WatchesRawSource(start).
		WatchesRawSource(source.Channel(bound, one)).
		Complete(r)
}

// specChanged passes what can change a decision. Statuses, our own among them, are not passed.
var specChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
		e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}}
