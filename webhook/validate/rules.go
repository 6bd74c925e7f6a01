package validate

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/binding"
	"github.com/reservation-operator/reservation-operator/source/check"
)

// maxOverlaps is how many nodes of an overlap are named one by one.
const maxOverlaps = 10

// Reservation returns what is wrong with a Reservation, in the order of its fields; nil if nothing is. old is what it
// was before, nil on creation; others are the Reservations that exist, in any order, itself possibly among them.
//
// A node that is added to spec.reservedNodes must not be in another Reservation's that is not being deleted (spec.md,
// "A node is in two reservations"). Names that were there before are not looked at, so an overlap that slipped in can
// be edited away name by name. Nor is a nodeSelector that did not change.
func Reservation(candidate, old *v1alpha1.Reservation, others []v1alpha1.Reservation) field.ErrorList {
	if !candidate.DeletionTimestamp.IsZero() {
		return nil
	}
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if old == nil || !equality.Semantic.DeepEqual(old.Spec.NodeSelector, candidate.Spec.NodeSelector) {
		if _, err := metav1.LabelSelectorAsSelector(candidate.Spec.NodeSelector); err != nil {
			errs = append(errs, field.Invalid(spec.Child("nodeSelector"), field.OmitValueType{}, err.Error()))
		}
	}
	return append(errs, overlaps(candidate, added(candidate, old), others)...)
}

// added returns the names that the candidate has in spec.reservedNodes and did not have before.
func added(candidate, old *v1alpha1.Reservation) []string {
	if old == nil {
		return candidate.Spec.ReservedNodes
	}
	had := make(map[string]bool, len(old.Spec.ReservedNodes))
	for _, name := range old.Spec.ReservedNodes {
		had[name] = true
	}
	var names []string
	for _, name := range candidate.Spec.ReservedNodes {
		if !had[name] {
			names = append(names, name)
		}
	}
	return names
}

// overlaps returns an error for each of the names that another Reservation has. Whose claim is older does not matter:
// who has the node must give it up first.
func overlaps(candidate *v1alpha1.Reservation, names []string, others []v1alpha1.Reservation) field.ErrorList {
	if len(names) == 0 {
		return nil
	}
	all := []v1alpha1.Reservation{{ObjectMeta: candidate.ObjectMeta}}
	all[0].Spec.ReservedNodes = names
	for i := range others {
		if others[i].Name != candidate.Name {
			all = append(all, others[i])
		}
	}
	holders := map[string]*v1alpha1.Reservation{}
	for _, o := range check.Overlaps(all) {
		switch {
		case holders[o.Node] != nil: // a third claimant
		case o.First.Name == candidate.Name:
			holders[o.Node] = o.Second
		case o.Second.Name == candidate.Name:
			holders[o.Node] = o.First
		}
	}
	var errs field.ErrorList
	path := field.NewPath("spec", "reservedNodes")
	for i, name := range candidate.Spec.ReservedNodes {
		holder := holders[name]
		if holder == nil || slices.Index(candidate.Spec.ReservedNodes, name) != i {
			continue
		}
		if len(errs) == maxOverlaps {
			return append(errs, field.Forbidden(path, fmt.Sprintf(
				"%d nodes in all are already in other Reservations", len(holders))))
		}
		errs = append(errs, field.Invalid(path.Index(i), name, fmt.Sprintf(
			"%s is already in Reservation %s (tenant %s); remove it there first", name, holder.Name, holder.Spec.Tenant)))
	}
	return errs
}

// Binding returns what is wrong with a ReservationBinding; nil if nothing is. old is what it was before, nil on
// creation; reservation is the one that it names now, nil if there is none. A spec that did not change is not looked
// at.
//
// A Reservation that exists must accept the namespace. One that does not exist, or is being deleted, is no error: in
// which order the objects of one commit or one kubectl apply arrive must not matter, and the binding's Ready condition
// says so for as long as it lasts. See BindingWarnings.
func Binding(candidate, old *v1alpha1.ReservationBinding, reservation *v1alpha1.Reservation) field.ErrorList {
	if !changed(candidate, old) {
		return nil
	}
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if reservation != nil {
		// The right to it is one thing and its deletion another.
		live := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: reservation.Name}, Spec: reservation.Spec}
		if _, reason, message := binding.Accept(candidate, &live); reason == v1alpha1.ReasonNamespaceNotAccepted {
			errs = append(errs, field.Forbidden(spec.Child("reservationName"), message))
		}
	}
	if err := binding.SelectorError(candidate); err != nil {
		errs = append(errs, field.Invalid(spec.Child("podSelector"), field.OmitValueType{}, err.Error()))
	}
	return errs
}

// BindingWarnings returns what is not wrong with a ReservationBinding and yet keeps it from doing anything now.
func BindingWarnings(candidate, old *v1alpha1.ReservationBinding, reservation *v1alpha1.Reservation) []string {
	if !changed(candidate, old) {
		return nil
	}
	var warnings []string
	name := candidate.Spec.ReservationName
	switch {
	case reservation == nil:
		warnings = append(warnings, fmt.Sprintf("no pod is injected until there is a Reservation %s", name))
	case !reservation.DeletionTimestamp.IsZero():
		warnings = append(warnings, fmt.Sprintf("no pod is injected: Reservation %s is being deleted", name))
	}
	if !candidate.InjectsAffinity() && !candidate.InjectsToleration() {
		warnings = append(warnings, "no pod is injected: spec.injectAffinity and spec.injectToleration are both false")
	}
	return warnings
}

func changed(candidate, old *v1alpha1.ReservationBinding) bool {
	return candidate.DeletionTimestamp.IsZero() &&
		(old == nil || !equality.Semantic.DeepEqual(old.Spec, candidate.Spec))
}
