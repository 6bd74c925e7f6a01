package serve

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// SetupWithManager adds a controller, for the leader, that repairs policies and webhook configurations: at its start,
// so that the fences stand before there is any binding, and whenever somebody changes them or the CA changes. changed
// is Certificates.Changed.
func (r *Registrar) SetupWithManager(mgr manager.Manager, changed <-chan event.GenericEvent) error {
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "admission"}}
	always := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{request}
	})
	ours := builder.WithPredicates(predicate.NewPredicateFuncs(func(object client.Object) bool {
		return strings.HasPrefix(object.GetName(), "reservation-")
	}))
	b := ctrl.NewControllerManagedBy(mgr).Named("reservation-admission").
		WatchesRawSource(source.Channel(changed, always)).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(request)
			return nil
		}))
	for _, kind := range r.Fence.Kinds() {
		b = b.WatchesMetadata(kind, always, ours)
	}
	return b.Complete(reconcile.Func(r.reconcile))
}

// reconcile looks again when a CA that was replaced is to leave the bundle.
func (r *Registrar) reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	err := r.Repair(ctx)
	if errors.Is(err, ErrCertificateNotReady) {
		return reconcile.Result{RequeueAfter: 5 * time.Second}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: overlap}, nil
}
