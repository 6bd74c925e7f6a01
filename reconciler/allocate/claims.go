package allocate

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// gatherClaims finds out which Reservations may have which nodes, and says of the named nodes that cannot be had why.
func (d *decider) gatherClaims() {
	ordered := make([]*v1alpha1.Reservation, 0, len(d.Reservations))
	for i := range d.Reservations {
		ordered = append(ordered, &d.Reservations[i])
	}
	slices.SortFunc(ordered, v1alpha1.CompareClaims)
	for _, r := range ordered {
		d.reservations[r.Name], d.generations[r.Name] = r, r.Generation
		if !r.DeletionTimestamp.IsZero() {
			continue
		}
		selector, err := selectorOf(r)
		switch {
		case err != nil:
			d.unreadable[r.Name] = true // reported on the Reservation; it keeps what it holds, see holder
		case r.Spec.ReservedNodes != nil:
			d.claimNamed(r, selector)
		case r.Spec.NodeSelector != nil:
			d.claimPool(r, selector)
		}
	}
}

func (d *decider) claimNamed(r *v1alpha1.Reservation, selector labels.Selector) {
	for _, name := range r.Spec.ReservedNodes {
		node, exists := d.nodes[name]
		switch {
		case !exists:
			d.pend(r, name, v1alpha1.PendingNotFound, "")
			if d.Index.Grants[name].Reservation == r.Name && name != v1alpha1.ProbeNode {
				d.claims[name] = append(d.claims[name], r) // its entry stays while its Node is away
			}
		case !selector.Matches(labels.Set(node.Labels)):
			d.pend(r, name, v1alpha1.PendingSelectorMismatch, "")
		default:
			d.claims[name] = append(d.claims[name], r)
		}
	}
}

func (d *decider) claimPool(r *v1alpha1.Reservation, selector labels.Selector) {
	claim := func(node Node) {
		if _, exists := d.nodes[node.Name]; exists && selector.Matches(labels.Set(node.Labels)) {
			d.claims[node.Name] = append(d.claims[node.Name], r)
		}
	}
	candidates, narrowed := d.candidates(selector)
	if !narrowed {
		for _, node := range d.Nodes {
			claim(node)
		}
	}
	for _, i := range candidates {
		claim(d.Nodes[i])
	}
}

// candidates returns the nodes that one of the selector's requirements lets through, as indexes of Nodes, each once;
// of several requirements, the one with the fewest. It returns false if no requirement names the values that it wants:
// then it may be any node. Without it, a thousand Reservations on ten thousand nodes are ten million comparisons.
func (d *decider) candidates(selector labels.Selector) (best []int, narrowed bool) {
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		switch requirement.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
		default:
			continue
		}
		nodes := d.nodesByLabel(requirement.Key())
		var found []int
		for value := range requirement.Values() {
			found = append(found, nodes[value]...)
		}
		if !narrowed || len(found) < len(best) {
			best, narrowed = found, true
		}
	}
	return best, narrowed
}

func (d *decider) nodesByLabel(key string) map[string][]int {
	if _, asked := d.byLabel[key]; !asked {
		d.byLabel[key] = map[string][]int{}
		for i, node := range d.Nodes {
			if value, has := node.Labels[key]; has {
				d.byLabel[key][value] = append(d.byLabel[key][value], i)
			}
		}
	}
	return d.byLabel[key]
}

// fit makes the index no larger than it may be, if it can. It takes back new grants, the last names first; if that is
// not enough, it takes back the namespaces that nodes did not accept before. What is held already is never taken back.
func (d *decider) fit() {
	if d.MaxBytes <= 0 {
		return
	}
	size := 0
	for _, value := range (Index{Version: d.next.Version, Bound: d.next.Bound}).Data() {
		size += len(value)
	}
	for name, grant := range d.next.Grants {
		size += grant.bytes(name)
	}
	if size <= d.MaxBytes {
		return
	}
	names := slices.Sorted(maps.Keys(d.next.Grants))
	for _, name := range slices.Backward(names) {
		if size <= d.MaxBytes {
			return
		}
		if _, had := d.Index.Grants[name]; had || d.nodes[name].locked() {
			continue
		}
		size -= d.next.Grants[name].bytes(name)
		delete(d.next.Grants, name)
		d.full[name] = true
	}
	for _, name := range slices.Backward(names) {
		if size <= d.MaxBytes {
			return
		}
		grant, granted := d.next.Grants[name]
		smaller := grant
		smaller.Namespaces = nil
		for _, namespace := range grant.Namespaces {
			if slices.Contains(d.Index.Grants[name].Namespaces, namespace) {
				smaller.Namespaces = append(smaller.Namespaces, namespace)
			}
		}
		if saved := grant.bytes(name) - smaller.bytes(name); granted && saved > 0 {
			size -= saved
			d.next.Grants[name] = smaller
			d.full[name] = true
		}
	}
}

// selectorOf returns the pool of a Reservation: everything where it has names and no selector.
func selectorOf(r *v1alpha1.Reservation) (labels.Selector, error) {
	if r.Spec.NodeSelector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(r.Spec.NodeSelector)
}
