package commit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Convergence says how far the nodes are with what a commit asked for.
type Convergence struct {
	// Done: every node that can be locked is, and every node that is given up is free.
	Done bool
	// Text says it in words: "2 reservations, 8 nodes locked", or "9 locked, gpu-04 draining: 3 pods".
	Text string
}

// Converge looks at the Reservations of a source, as a cache has them, and at what was written: expected holds the
// state of each Reservation that the last commit consists of, deleted the UIDs of those that it removed. A cache that
// has not seen a write yet is not converged. The order of the Reservations does not matter.
func Converge(own []v1alpha1.Reservation, expected map[string]State, deleted map[types.UID]bool) Convergence {
	var c convergence
	byName := make(map[string]v1alpha1.Reservation, len(own))
	for _, r := range own {
		byName[r.Name] = r
	}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		switch r, found := byName[name]; {
		case !found, r.DeletionTimestamp.IsZero() && expected[name].newerThan(&r):
			c.unseen++
		case r.DeletionTimestamp.IsZero():
			c.held(r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		r := byName[name]
		_, wanted := expected[name]
		switch {
		case !r.DeletionTimestamp.IsZero():
			c.draining(r)
		case !wanted && deleted[r.UID]:
			c.unseen++
		}
	}
	return c.result(len(expected))
}

type convergence struct {
	locked, locking, unseen int
	busy, pending           []string
}

// held counts a Reservation of the commit.
func (c *convergence) held(r v1alpha1.Reservation) {
	away := 0
	for _, p := range r.Status.Pending {
		switch p.Reason {
		case v1alpha1.PendingFenceNotProven:
		case v1alpha1.PendingReleasingFrom, v1alpha1.PendingNodeDeleting:
			c.busy = append(c.busy, fmt.Sprintf("%s waits: %s", p.Name, reason(p)))
		default:
			c.pending = append(c.pending, fmt.Sprintf("%s: %s", p.Name, reason(p)))
			if slices.Contains(r.Status.Nodes, p.Name) {
				away++ // granted, but there is no such node now
			}
		}
	}
	c.locked += max(0, int(r.Status.Reserved)-len(r.Status.Releasing))
	c.releasing(r)
	missing := len(r.Status.Nodes) - int(r.Status.Reserved) - away
	switch ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady); {
	case r.Status.ObservedGeneration < r.Generation || ready == nil:
		c.busy = append(c.busy, r.Name+" is being looked at")
	case missing > 0:
		c.locking += missing
	case len(r.Status.Releasing) == 0 && ready.Status != metav1.ConditionTrue && ready.Reason != v1alpha1.ReasonNodesPending:
		c.busy = append(c.busy, fmt.Sprintf("%s: %s", r.Name, ready.Message))
	}
}

// draining counts a Reservation that is being deleted.
func (c *convergence) draining(r v1alpha1.Reservation) {
	c.releasing(r)
	if len(r.Status.Releasing) == 0 {
		c.busy = append(c.busy, r.Name+" is being deleted")
	}
}

func (c *convergence) releasing(r v1alpha1.Reservation) {
	for _, n := range r.Status.Releasing {
		switch n.PodsLeft {
		case 0:
			c.busy = append(c.busy, n.Name+" draining")
		case 1:
			c.busy = append(c.busy, n.Name+" draining: 1 pod")
		default:
			c.busy = append(c.busy, fmt.Sprintf("%s draining: %d pods", n.Name, n.PodsLeft))
		}
	}
}

func (c *convergence) result(reservations int) Convergence {
	if len(c.busy)+c.locking+c.unseen == 0 {
		text := fmt.Sprintf("%s, %s locked", plural(reservations, "reservation"), plural(c.locked, "node"))
		if len(c.pending) > 0 {
			text += fmt.Sprintf("; %s pending (%s)", plural(len(c.pending), "node"), first(c.pending))
		}
		return Convergence{Done: true, Text: text}
	}
	parts := []string{fmt.Sprintf("%d locked", c.locked)}
	if c.locking > 0 {
		parts = append(parts, fmt.Sprintf("%d being locked", c.locking))
	}
	if len(c.busy) > 0 {
		parts = append(parts, first(c.busy))
	}
	return Convergence{Text: strings.Join(parts, ", ")}
}

func reason(p v1alpha1.PendingNode) string {
	if p.By == "" {
		return string(p.Reason)
	}
	return string(p.Reason) + " " + p.By
}

// first joins the first three of some texts and says how many more there are.
func first(texts []string) string {
	const most = 3
	if len(texts) <= most {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:most], ", "), len(texts)-most)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
