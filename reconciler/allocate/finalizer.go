package allocate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservations,verbs=get;list;watch;patch

// keep puts the finalizer on those Reservations that are about to be given nodes, before the index says so: from then
// on, whoever deletes one gets the same release (DESIGN.md, Law 9). One that does not take it is left out of the
// decision but for what it held before, as if it had not been read; the error says which and why.
func (r *Reconciler) keep(ctx context.Context, s Snapshot, decided Decision) error {
	reservations, before, given := s.Reservations, s.Index, map[string][]string{}
	for node, grant := range decided.Index.Grants {
		if grant.Phase == Held {
			given[grant.Reservation] = append(given[grant.Reservation], node)
		}
	}
	errs := make([]error, len(reservations))
	r.atOnce(len(reservations), func(i int) {
		if reservation := &reservations[i]; len(given[reservation.Name]) > 0 {
			errs[i] = finalizer(ctx, r.Client, reservation, controllerutil.AddFinalizer)
		}
	})
	for i, err := range errs {
		if err == nil {
			continue
		}
		name := reservations[i].Name
		delete(decided.Generations, name)
		for _, node := range given[name] {
			had, ok := before.Grants[node]
			if ok && had.Phase == Held && had.Reservation != name {
				had = Grant{Reservation: had.Reservation, Phase: Releasing} // who had it does not claim it any more
			}
			if decided.Index.Grants[node] = had; !ok {
				delete(decided.Index.Grants, node)
			}
		}
		for _, node := range s.Nodes {
			// The index was lost, and the lock is all that says whose it is: it stays closed until the next decision.
			if grant, kept := decided.Index.Grants[node.Name]; !kept && node.locked() && slices.Contains(given[name], node.Name) {
				grant.Reservation, grant.Phase = name, Releasing
				decided.Index.Grants[node.Name] = grant
			}
		}
		errs[i] = client.IgnoreNotFound(err)
	}
	return errors.Join(errs...)
}

// finalize takes the finalizer off a deleted Reservation that has no node any more. It reports true if that was all
// there was to do.
func (r *StatusReconciler) finalize(ctx context.Context, reservation *v1alpha1.Reservation) (bool, error) {
	if reservation.DeletionTimestamp.IsZero() {
		return false, nil
	}
	generation, granted, _ := r.View.Reservation(reservation.Name)
	// The generation grows when a deletion is asked for, so this decision knew of it.
	if generation != reservation.Generation || len(granted) > 0 {
		return false, nil
	}
	return true, finalizer(ctx, r.Client, reservation, controllerutil.RemoveFinalizer)
}

// finalizer changes the finalizer of a Reservation and writes that, if it changed. The resourceVersion keeps other
// finalizers as they are, which a patch of the list would write anew.
func finalizer(ctx context.Context, c client.Client, reservation *v1alpha1.Reservation, change func(client.Object, string) bool) error {
	before := reservation.DeepCopy()
	if !change(reservation, v1alpha1.FinalizerRelease) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, reservation, patch, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("writing the finalizer of reservation %s: %w", reservation.Name, err)
	}
	return nil
}
