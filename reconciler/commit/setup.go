package commit

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/runtime/predicates"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Back-off of a source that failed: short, because a repository that comes back is news; bounded, because a source
// whose back-off outgrows its interval would miss commits.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = time.Minute
)

// SetupWithManager registers the reconciler: a source is looked at when its spec changed, when somebody asked for it
// (v1alpha1.AnnotationReconcileRequest), when a Reservation or ReservationBinding that it owns changed or went, and
// at its interval.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	concurrency := r.Concurrency
	if concurrency == 0 {
		concurrency = 4
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("commit").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		For(&v1alpha1.ReservationSource{}, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicates.ReconcileRequestedPredicate{}))).
		Watches(&v1alpha1.Reservation{}, r.wakeOwner()).
		Watches(&v1alpha1.ReservationBinding{}, r.wakeOwner(), builder.WithPredicates(specOrMetadataChanged)).
		Complete(r)
}

// specOrMetadataChanged leaves out what controllers write into a status.
var specOrMetadataChanged = predicate.Or(
	predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})

// wakeOwner wakes the source whose label an object bears or bore, and notes what it lost.
func (r *Reconciler) wakeOwner() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue, o client.Object) {
		if source := owner(o); source != "" {
			q.Add(reconcile.Request{NamespacedName: named(source)})
		}
	}
	lose := func(o client.Object) {
		if source := owner(o); source != "" {
			r.memories.lose(source, o.GetUID())
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e crevent.CreateEvent, q queue) { wake(q, e.Object) },
		UpdateFunc: func(_ context.Context, e crevent.UpdateEvent, q queue) {
			if owner(e.ObjectOld) != owner(e.ObjectNew) {
				lose(e.ObjectOld)
				wake(q, e.ObjectOld)
			}
			if e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() {
				wake(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e crevent.DeleteEvent, q queue) {
			lose(e.Object)
			wake(q, e.Object)
		},
	}
}
