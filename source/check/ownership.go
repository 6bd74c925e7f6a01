package check

import (
	"fmt"
	"slices"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

func owners(f *facts) []render.Finding {
	var out []render.Finding
	for _, o := range f.allowed {
		owner, exists := f.Live.Owners[KeyOf(o)]
		switch {
		case !exists || owner == f.Source:
		case owner == "":
			out = append(out, warn(o, "", "exists already and belongs to no source: it is adopted"))
		default:
			out = append(out, at(o, "", fmt.Sprintf("belongs to the source %s: remove it from one of the two repositories", owner)))
		}
	}
	return out
}

// namespaces finds objects whose namespace neither exists nor comes with the commit.
func namespaces(f *facts) []render.Finding {
	if f.Live.Namespaces == nil {
		return nil
	}
	var out []render.Finding
	for _, o := range f.allowed {
		namespace := o.GetNamespace()
		k, _ := kindOf(o)
		if _, lives := f.Live.Namespaces[namespace]; !k.namespaced || namespace == "" || lives || f.namespaces[namespace] {
			continue
		}
		out = append(out, at(o, "metadata.namespace", fmt.Sprintf("the namespace %s does not exist: add a Namespace to the commit", namespace)))
	}
	return out
}

// foreignNamespaces warns of namespaces that a Reservation accepts and this source does not control: a namespace that
// merely bears a tenant's name is not yet that tenant's (DESIGN.md, Admission).
func foreignNamespaces(f *facts) []render.Finding {
	var out []render.Finding
	for _, r := range f.reservations {
		for _, namespace := range r.value.AcceptedNamespaces() {
			owner, lives := f.Live.Namespaces[namespace]
			if namespace == "" || f.namespaces[namespace] || lives && owner == f.Source && owner != "" {
				continue
			}
			out = append(out, warn(r.object, "spec.namespaces", fmt.Sprintf(
				"the namespace %s is not in this commit: whoever controls it may run pods on the nodes of %s; "+
					"add a Namespace, or name the namespaces that are meant", namespace, r.value.Spec.Tenant)))
		}
	}
	return out
}

func bindings(f *facts) []render.Finding {
	var out []render.Finding
	for _, b := range f.bindings {
		name := b.value.Spec.ReservationName
		if name == "" {
			continue // the dry run says that it is required
		}
		reservation := f.liveByName[name]
		if r, inSet := f.byName[name]; inSet {
			reservation = r.value
		}
		if reservation == nil {
			out = append(out, at(b.object, "spec.reservationName", fmt.Sprintf(
				"Reservation %s is neither in the commit nor in the cluster; check the name", name)))
			continue
		}
		accept := f.Accept
		if accept == nil {
			accept = acceptNamespace
		}
		if ok, _, message := accept(b.value, reservation); !ok {
			out = append(out, at(b.object, "spec.reservationName", message))
		}
	}
	return out
}

// acceptNamespace is the rule where no other is given: the Reservation must accept the binding's namespace.
func acceptNamespace(b *v1alpha1.ReservationBinding, r *v1alpha1.Reservation) (ok bool, reason, message string) {
	if slices.Contains(r.AcceptedNamespaces(), b.Namespace) {
		return true, "", ""
	}
	return false, v1alpha1.ReasonNamespaceNotAccepted, fmt.Sprintf(
		"Reservation %s does not accept namespace %s; add it to spec.namespaces of that Reservation", r.Name, b.Namespace)
}
