package inject

import (
	"cmp"
	"fmt"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Binding is what injection needs to know of an accepted ReservationBinding and its Reservation.
type Binding struct {
	// Name is the ReservationBinding's.
	Name string
	// Reservation names the Reservation.
	Reservation string
	// Tenant is the Reservation's.
	Tenant string
	// Effect is that of the Reservation's taint, whether or not it taints at the moment.
	Effect corev1.TaintEffect
	// Selector says which pods of the namespace are meant. A nil one selects none.
	Selector labels.Selector
	// Affinity and Toleration say what its pods get. A binding with neither is as good as none.
	Affinity, Toleration bool
}

// Patch is what is added to a pod: JSON patch operations (RFC 6902), all of them "add". Empty: nothing.
type Patch []jsonpatch.Operation

// RefusedError says why a pod must not be created as it is, and what to change.
type RefusedError struct {
	// Message names the field, the binding and the remedy.
	Message string
}

func (e *RefusedError) Error() string { return e.Message }

// Pod decides what to add to a pod, given as the JSON that the API server sent, that is being created in a namespace
// with these accepted bindings, in any order. Neither is changed. The rules, for a pod that some binding selects
// (spec.md, "What gets injected at admission"; DESIGN.md, Admission):
//
//  1. Bindings of two tenants: refused. Several of one tenant count as one.
//  2. Affinity: "reserved.tenant In [tenant]" is ANDed into every term of the required node affinity.
//  3. A pod whose own demands rule that out is refused. Demands that do so in some of the terms only are left to
//     fail there: the other terms still have nodes.
//  4. Toleration: that of each Reservation's taint, unless one of the pod's own covers it.
//  5. A DaemonSet's pod gets no affinity: its controller counts on one pod per node and would make it again for ever.
//  6. One that gets no affinity, but tolerates other tenants' taints as well, is confined to its tenant's nodes and
//     unreserved ones.
//
// A pod that no binding selects and that tolerates the taint of reserved nodes gets "reserved.tenant DoesNotExist"
// ANDed into every term (keep-out). Any other pod gets nothing.
//
// The error is a *RefusedError, or says why raw is not a pod.
func Pod(raw []byte, bindings []Binding) (Patch, error) {
	p, err := decode(raw)
	if err != nil {
		return nil, err
	}
	selected := selecting(bindings, p.Metadata.Labels)
	if len(selected) == 0 {
		if !slices.ContainsFunc(p.Spec.Tolerations, toleratesReserved) {
			return nil, nil
		}
		return p.confine(unreserved)
	}
	if err := oneTenant(selected); err != nil {
		return nil, err
	}
	affinity, err := p.addAffinity(selected)
	if err != nil {
		return nil, err
	}
	return append(affinity, p.addTolerations(selected)...), nil
}

// selecting returns the bindings that give a pod with these labels anything, sorted by name.
func selecting(bindings []Binding, podLabels map[string]string) []Binding {
	var selected []Binding
	for _, b := range bindings {
		if (b.Affinity || b.Toleration) && b.Selector != nil && b.Selector.Matches(labels.Set(podLabels)) {
			selected = append(selected, b)
		}
	}
	slices.SortFunc(selected, func(a, b Binding) int { return cmp.Compare(a.Name, b.Name) })
	return selected
}

func oneTenant(selected []Binding) error {
	first := selected[0]
	for _, b := range selected[1:] {
		if b.Tenant != first.Tenant {
			return refuse("ReservationBinding %s (tenant %s) and ReservationBinding %s (tenant %s) both select this "+
				"pod; change its labels, or spec.podSelector of one of them, so that it belongs to one tenant",
				first.Name, first.Tenant, b.Name, b.Tenant)
		}
	}
	return nil
}

// addAffinity carries out rules 2, 3, 5 and 6. The bindings are of one tenant.
func (p *pod) addAffinity(selected []Binding) (Patch, error) {
	tenant := selected[0].Tenant
	i := slices.IndexFunc(selected, func(b Binding) bool { return b.Affinity })
	if i >= 0 && !p.ofDaemonSet() {
		if field, why := p.contradiction(tenant); field != "" {
			return nil, refuse("%s %s, but ReservationBinding %s sends this pod to the nodes of tenant %s; remove that "+
				"demand, or change the pod's labels so that the binding does not select it",
				field, why, selected[i].Name, tenant)
		}
		return p.confine(tenantNode(tenant))
	}
	others := func(t corev1.Toleration) bool {
		return toleratesReserved(t) && !(equals(t) && t.Key == v1alpha1.TaintKey && t.Value == tenant)
	}
	if !slices.ContainsFunc(p.Spec.Tolerations, others) {
		return nil, nil // other tenants' taints keep it out there
	}
	return p.confine(tenantNode(tenant), unreserved)
}

func refuse(format string, args ...any) error {
	return &RefusedError{Message: fmt.Sprintf(format, args...)}
}
