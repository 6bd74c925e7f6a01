package check

import (
	"cmp"
	"slices"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Overlap is a node that two Reservations name.
type Overlap struct {
	// Node is the name that both have in spec.reservedNodes.
	Node string
	// First has the better claim (see Overlaps); Second is the one that must let go.
	First, Second *v1alpha1.Reservation
}

// Overlaps returns every node that more than one of the Reservations names in spec.reservedNodes (DESIGN.md, law 10),
// sorted by node and then by the order of claims; nil if there is none.
//
// Claims are ordered by: 1. the creation time, the older first, and an object that has not been created yet (no
// creation time) last; 2. the UID; 3. the name. A node with n claimants gives n-1 overlaps, all with the same First.
// The order of the input does not matter. Reservations that are being deleted claim nothing. Two entries of one name
// are one object, so they do not overlap each other. Nodes that a nodeSelector alone matches are not looked at: who
// gets those is for the allocation to say, which sees the nodes.
//
// The pointers are into the slice, which is not changed.
func Overlaps(reservations []v1alpha1.Reservation) []Overlap {
	live := make([]*v1alpha1.Reservation, 0, len(reservations))
	for i := range reservations {
		if reservations[i].DeletionTimestamp.IsZero() {
			live = append(live, &reservations[i])
		}
	}
	slices.SortStableFunc(live, v1alpha1.CompareClaims)

	type claim struct{ node, reservation string }
	first := map[string]*v1alpha1.Reservation{}
	seen := map[claim]bool{}
	var out []Overlap
	for _, r := range live {
		for _, node := range r.Spec.ReservedNodes {
			holder, taken := first[node]
			switch {
			case seen[claim{node, r.Name}]:
				// Named twice by one Reservation.
			case !taken:
				first[node] = r
			default:
				out = append(out, Overlap{Node: node, First: holder, Second: r})
			}
			seen[claim{node, r.Name}] = true
		}
	}
	// Stable: within a node the order of claims stays.
	slices.SortStableFunc(out, func(a, b Overlap) int { return cmp.Compare(a.Node, b.Node) })
	return out
}
