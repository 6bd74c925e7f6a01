package binding

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Decision is how one binding stands.
type Decision struct {
	// Binding is the one that it is about, as it was given.
	Binding *v1alpha1.ReservationBinding
	// Tenant is that of its Reservation if the binding counts; empty if it does not.
	Tenant string
	// Reason and Message say why it does not count; they are empty if it does (see Accept).
	Reason, Message string
}

// Accepted reports whether the binding counts.
func (d Decision) Accepted() bool { return d.Reason == "" }

// Decide says which bindings count, sorted by namespace and name, and which namespaces have at least one that does,
// sorted and without repetition. The order of what is given does not matter, and it is not changed.
func Decide(bindings []v1alpha1.ReservationBinding, reservations []v1alpha1.Reservation) (decisions []Decision, bound []string) {
	byName := make(map[string]*v1alpha1.Reservation, len(reservations))
	for i := range reservations {
		byName[reservations[i].Name] = &reservations[i]
	}
	for i := range bindings {
		d := Decision{Binding: &bindings[i]}
		reservation := byName[d.Binding.Spec.ReservationName]
		var ok bool
		if ok, d.Reason, d.Message = Accept(d.Binding, reservation); ok {
			d.Tenant = reservation.Spec.Tenant
			bound = append(bound, d.Binding.Namespace)
		}
		decisions = append(decisions, d)
	}
	slices.SortFunc(decisions, func(a, b Decision) int {
		return cmp.Or(cmp.Compare(a.Binding.Namespace, b.Binding.Namespace), cmp.Compare(a.Binding.Name, b.Binding.Name))
	})
	slices.Sort(bound)
	return decisions, slices.Compact(bound)
}

// injected says what pods get from a binding that counts.
func injected(d Decision) string {
	what := ""
	switch affinity, toleration := d.Binding.InjectsAffinity(), d.Binding.InjectsToleration(); {
	case !affinity && !toleration:
		return fmt.Sprintf("accepted for tenant %s, but nothing is injected: spec.injectAffinity and "+
			"spec.injectToleration are both false", d.Tenant)
	case !affinity:
		what = " (the toleration alone)"
	case !toleration:
		what = " (the affinity alone)"
	}
	return fmt.Sprintf("pods of namespace %s that match are injected for tenant %s%s", d.Binding.Namespace, d.Tenant, what)
}
