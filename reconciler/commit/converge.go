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
	// busy says what is waited for, pending what is not.
	busy, pending texts
}

// held counts a Reservation of the commit.
func (c *convergence) held(r v1alpha1.Reservation) {
	n := r.Status.Counts
	c.locked += int(n.Locked)
	c.locking += int(n.Locking)
	awaited, listed := int(n.Awaited), 0
	for _, p := range r.Status.Pending {
		switch p.Reason {
		case v1alpha1.PendingFenceNotProven:
		case v1alpha1.PendingReleasingFrom, v1alpha1.PendingNodeDeleting:
			c.busy.add(fmt.Sprintf("%s waits: %s", p.Name, reason(p)))
			awaited--
		default:
			c.pending.add(fmt.Sprintf("%s: %s", p.Name, reason(p)))
			listed++
		}
	}
	// The list is cut. Nodes that are not in it count all the same.
	c.pending.unsaid += max(0, int(n.Pending-n.Awaited)-listed)
	if awaited > 0 {
		c.busy.add(fmt.Sprintf("%s waits for %s", r.Name, plural(awaited, "node")))
	}
	c.releasing(r)
	switch ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady); {
	case r.Status.ObservedGeneration < r.Generation || ready == nil:
		c.busy.add(r.Name + " is being looked at")
	case ready.Status != metav1.ConditionTrue && !counted(ready.Reason):
		c.busy.add(fmt.Sprintf("%s: %s", r.Name, ready.Message))
	}
}

// counted reports whether the numbers of nodes say all that the reason of a Ready condition does.
func counted(reason string) bool {
	switch reason {
	case v1alpha1.ReasonNodesPending, v1alpha1.ReasonNodesReleasing, v1alpha1.ReasonProgressing:
		return true
	}
	return false
}

// draining counts a Reservation that is being deleted.
func (c *convergence) draining(r v1alpha1.Reservation) {
	c.releasing(r)
	if r.Status.Counts.Releasing == 0 {
		c.busy.add(r.Name + " is being deleted")
	}
}

func (c *convergence) releasing(r v1alpha1.Reservation) {
	for _, n := range r.Status.Releasing {
		switch n.PodsLeft {
		case 0:
			c.busy.add(n.Name + " draining")
		case 1:
			c.busy.add(n.Name + " draining: 1 pod")
		default:
			c.busy.add(fmt.Sprintf("%s draining: %d pods", n.Name, n.PodsLeft))
		}
	}
	c.busy.unsaid += max(0, int(r.Status.Counts.Releasing)-len(r.Status.Releasing))
}

func (c *convergence) result(reservations int) Convergence {
	if c.busy.count()+c.locking+c.unseen == 0 {
		text := fmt.Sprintf("%s, %s locked", plural(reservations, "reservation"), plural(c.locked, "node"))
		if c.pending.count() > 0 {
			text += fmt.Sprintf("; %s pending (%s)", plural(c.pending.count(), "node"), c.pending)
		}
		return Convergence{Done: true, Text: text}
	}
	parts := []string{fmt.Sprintf("%d locked", c.locked)}
	if c.locking > 0 {
		parts = append(parts, fmt.Sprintf("%d being locked", c.locking))
	}
	if c.busy.count() > 0 {
		parts = append(parts, c.busy.String())
	}
	return Convergence{Text: strings.Join(parts, ", ")}
}

// texts are some texts, and how many more there would be.
type texts struct {
	said   []string
	unsaid int
}

func (t *texts) add(text string) { t.said = append(t.said, text) }

func (t texts) count() int { return len(t.said) + t.unsaid }

// String joins the first three and says how many more there are.
func (t texts) String() string {
	said := t.said[:min(len(t.said), 3)]
	text := strings.Join(said, ", ")
	if left := t.count() - len(said); left > 0 {
		text += more(left)
	}
	return text
}

func reason(p v1alpha1.PendingNode) string {
	if p.By == "" {
		return string(p.Reason)
	}
	return string(p.Reason) + " " + p.By
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
