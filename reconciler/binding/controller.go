package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

const (
	// certificateRetry is the pause before the door is tried again while there is no certificate.
	certificateRetry = 2 * time.Second
	// conflictRetry is the pause after somebody else was faster, or after the cache was behind our own write.
	conflictRetry = 200 * time.Millisecond
)

// Reconciler is the one worker that registers the namespaces with accepted bindings and writes every binding's status.
// It has a single key: whatever changed, everything is decided again, since what is registered is one list.
type Reconciler struct {
	// Client reads ReservationBindings and Reservations from a cache and writes the status of the former.
	Client client.Client
	// Index says which namespaces keep-out leaves to the webhook.
	Index Index
	// Door registers.
	Door Door
}

// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservations,verbs=get;list;watch
// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservationbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservationbindings/status,verbs=patch

// Reconcile decides about every binding, has the door registered accordingly, and then says so on the bindings whose
// status that changes. It is called with the one key of this controller.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	decisions, bound, err := r.gather(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	settled, known := r.Index.Bound()
	if !known {
		// What a former run registered stays until the index is enforced, and so does what was said about it.
		return r.conclude(ctx, slices.DeleteFunc(decisions, Decision.Accepted), settled, report.Done(""))
	}
	// A namespace is registered once keep-out leaves its pods alone, or they would get both.
	err = r.Door.Ensure(ctx, slices.DeleteFunc(bound, func(n string) bool { return !slices.Contains(settled, n) }))
	switch {
	case ctx.Err() != nil:
		return ctrl.Result{}, ctx.Err() // the operator is stopping: that is nobody's fault, and nothing to write down
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil // nor is this
	}
	return r.conclude(ctx, decisions, settled, registration(err))
}

// conclude writes the statuses, given how the registration of the settled namespaces went, and returns what the
// reconcile returns.
func (r *Reconciler) conclude(ctx context.Context, decisions []Decision, settled []string, registration report.Outcome) (ctrl.Result, error) {
	again, err := r.writeStatuses(ctx, decisions, settled, registration)
	if err != nil {
		return ctrl.Result{}, err
	}
	if again && registration.OK() {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return registration.Result(0)
}

func (r *Reconciler) gather(ctx context.Context) ([]Decision, []string, error) {
	var bindings v1alpha1.ReservationBindingList
	if err := r.Client.List(ctx, &bindings); err != nil {
		return nil, nil, fmt.Errorf("listing ReservationBindings: %w", err)
	}
	var reservations v1alpha1.ReservationList
	// They can be large, and are only read.
	if err := r.Client.List(ctx, &reservations, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing Reservations: %w", err)
	}
	decisions, bound := Decide(bindings.Items, reservations.Items)
	return decisions, bound, nil
}

// registration turns the door's answer into the outcome for every accepted binding.
func registration(err error) report.Outcome {
	switch {
	case err == nil:
		return report.Done("")
	case errors.Is(err, ErrNotReady):
		return report.Waiting(v1alpha1.ReasonCertificateNotReady,
			"the webhook certificate is not ready yet; pods are injected once it is", certificateRetry)
	}
	return report.Retry(v1alpha1.ReasonRegistrationFailed, fmt.Sprintf(
		"the webhook could not be registered for the namespaces that have bindings: %v; it is tried again", err), err)
}

// outcomeOf returns how one binding stands, given how the registration of the settled namespaces went.
func outcomeOf(d Decision, settled []string, registration report.Outcome) report.Outcome {
	switch {
	case d.Reason == v1alpha1.ReasonReservationNotFound || d.Reason == v1alpha1.ReasonReservationTerminating:
		return report.Waiting(d.Reason, d.Message, 0) // it may be on its way, in the same commit even
	case !d.Accepted():
		return report.Stalled(d.Reason, d.Message, 0)
	case !registration.OK():
		return registration
	case !slices.Contains(settled, d.Binding.Namespace):
		return report.Waiting(v1alpha1.ReasonProgressing,
			"pods are injected once the API server leaves those of this namespace to the webhook", 0)
	}
	return report.Done(injected(d))
}

// writeStatuses writes the status of each binding whose status is not what it should be. One that cannot be written
// does not keep the others from it. again is true if some must be looked at again, because the cache is behind.
func (r *Reconciler) writeStatuses(ctx context.Context, decisions []Decision, settled []string, registration report.Outcome) (again bool, err error) {
	var errs []error
	for _, d := range decisions {
		switch err := r.writeStatus(ctx, d, outcomeOf(d, settled, registration)); {
		case apierrors.IsConflict(err):
			again = true
		case client.IgnoreNotFound(err) != nil:
			errs = append(errs, fmt.Errorf("writing the status of ReservationBinding %s: %w", client.ObjectKeyFromObject(d.Binding), err))
		}
	}
	return again, errors.Join(errs...)
}

func (r *Reconciler) writeStatus(ctx context.Context, d Decision, outcome report.Outcome) error {
	b := d.Binding.DeepCopy()
	b.Status.Tenant = d.Tenant
	outcome.Mark(b)
	if outcome.OK() || conditions.IsStalled(b) {
		b.Status.ObservedGeneration = b.Generation
	} else if b.Status.ObservedGeneration == 0 {
		b.Status.ObservedGeneration = -1 // kstatus: seen, and no generation is done yet
	}
	if equality.Semantic.DeepEqual(b.Status, d.Binding.Status) {
		return nil
	}
	// The resourceVersion is a precondition, or a status made from a cache that is behind would be written twice.
	patch := client.MergeFromWithOptions(d.Binding, client.MergeFromWithOptimisticLock{})
	return r.Client.Status().Patch(ctx, b, patch, client.FieldOwner(v1alpha1.FieldManager))
}
