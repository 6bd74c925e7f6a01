package allocate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

// maxListed bounds the lists of releasing and pending nodes in a status.
const maxListed = 100

// NodeFacts is what the status of a Reservation says of one node that is granted to it.
type NodeFacts struct {
	// Name is the node's name, Phase its grant's.
	Name  string
	Phase Phase
	// Exists says that there is a Node object, Locked that it bears a lock of this Reservation, and InOrder that the
	// lock is as it should be: whole while held, gone when free.
	Exists, Locked, InOrder bool
	// Unschedulable says that it takes no new pods, for a reason that is not the operator's.
	Unschedulable bool
	// Since is when its release began; nil before the node bears it.
	Since *time.Time
	// Report is what the node reconciler last said.
	Report ledger.Report
}

// ReservationFacts is everything that the status of a Reservation rests on.
type ReservationFacts struct {
	// Reservation is read, not changed.
	Reservation *v1alpha1.Reservation
	// Nodes are those granted to it, sorted by name.
	Nodes []NodeFacts
	// Pending are those that it claims and does not hold, sorted by name.
	Pending []v1alpha1.PendingNode
	// Doubt is empty if the API server enforces the index, and else what to do about that.
	Doubt string
}

// Counts returns how many nodes are where.
func (f ReservationFacts) Counts() v1alpha1.NodeCounts {
	c := v1alpha1.NodeCounts{Pending: int32(len(f.Pending))}
	for _, p := range f.Pending {
		if p.Reason == v1alpha1.PendingReleasingFrom || p.Reason == v1alpha1.PendingNodeDeleting {
			c.Awaited++
		}
	}
	for _, n := range f.Nodes {
		switch {
		case n.Phase != Held:
			c.Releasing++
		case n.Locked:
			c.Locked++
			if n.Unschedulable {
				c.Unschedulable++
			}
		case n.Exists:
			c.Locking++
		}
	}
	return c
}

// Describe returns the status of a Reservation without its conditions, and the outcome that the conditions Ready,
// Reconciling and Stalled are made from.
func Describe(f ReservationFacts) (v1alpha1.ReservationStatus, report.Outcome) {
	r := f.Reservation
	status := v1alpha1.ReservationStatus{
		ObservedGeneration: r.Generation,
		Namespaces:         slices.Sorted(slices.Values(r.AcceptedNamespaces())),
		Revision:           r.Annotations[v1alpha1.AnnotationRevision],
		Counts:             f.Counts(),
		Pending:            slices.Clone(f.Pending),
	}
	for _, n := range f.Nodes {
		status.Nodes = append(status.Nodes, n.Name)
		if n.Locked {
			status.Reserved++
		}
		status.ForeignPods += int32(len(n.Report.ForeignPods))
		switch {
		case n.Phase != Held:
			status.Releasing = append(status.Releasing, releasing(n))
		case !n.InOrder && n.Exists && f.Doubt != "" && !f.isPending(n.Name):
			status.Pending = append(status.Pending, v1alpha1.PendingNode{Name: n.Name, Reason: v1alpha1.PendingFenceNotProven})
		}
	}
	slices.SortFunc(status.Pending, func(a, b v1alpha1.PendingNode) int { return strings.Compare(a.Name, b.Name) })
	outcome := f.outcome(status)
	status.Releasing = status.Releasing[:min(len(status.Releasing), maxListed)]
	status.Pending = status.Pending[:min(len(status.Pending), maxListed)]
	return status, outcome
}

func (f ReservationFacts) isPending(node string) bool {
	_, found := slices.BinarySearchFunc(f.Pending, node, func(p v1alpha1.PendingNode, name string) int { return strings.Compare(p.Name, name) })
	return found
}

func releasing(n NodeFacts) v1alpha1.ReleasingNode {
	out := v1alpha1.ReleasingNode{Name: n.Name, PodsLeft: n.Report.PodsLeft, Owners: n.Report.Owners, WaitingFor: n.Report.WaitingFor}
	if n.Since != nil {
		since := metav1.NewTime(*n.Since)
		out.Since = &since
	}
	return out
}

// outcome is the first of these that is so: the selector cannot be read; the operator cannot change a node; the fence
// does not stand; a node is being released; a claim is not granted; a lock is on its way; all is done.
func (f ReservationFacts) outcome(status v1alpha1.ReservationStatus) report.Outcome {
	r := f.Reservation
	if _, err := selectorOf(r); err != nil {
		return report.Stalled(v1alpha1.ReasonInvalidNodeSelector, fmt.Sprintf(
			"spec.nodeSelector cannot be read: %s; correct it. Nodes that are held stay held", err), 0)
	}
	locking, troubled := 0, 0
	var trouble ledger.Report
	for _, n := range f.Nodes {
		if n.Phase == Held && n.Exists && !n.InOrder {
			locking++
		}
		if n.Report.Reason != "" && n.Report.Reason != v1alpha1.ReasonFenceNotProven { // that one is said of all below
			if troubled++; troubled == 1 {
				trouble = n.Report
			}
		}
	}
	switch {
	case troubled > 0:
		return report.Waiting(trouble.Reason, trouble.Message+more(troubled-1), 0)
	case f.Doubt != "":
		return report.Waiting(v1alpha1.ReasonFenceNotProven, "the API server was not seen to refuse foreign pods on reserved "+
			"nodes, so none is locked or released until it is; "+f.Doubt, 0)
	case len(status.Releasing) > 0:
		n := status.Releasing[0]
		return report.Waiting(v1alpha1.ReasonNodesReleasing, fmt.Sprintf("node %s is being released%s%s",
			n.Name, because(n.WaitingFor), more(len(status.Releasing)-1)), 0)
	case len(status.Pending) > 0:
		return report.Waiting(v1alpha1.ReasonNodesPending, Explain(status.Pending[0])+more(len(status.Pending)-1), 0)
	case locking > 0:
		return report.Waiting(v1alpha1.ReasonProgressing, fmt.Sprintf("%d of %d nodes are being locked", locking, len(f.Nodes)), 0)
	}
	message := fmt.Sprintf("%d nodes are locked for %s", status.Reserved, r.Spec.Tenant)
	if status.Reserved == 1 {
		message = "1 node is locked for " + r.Spec.Tenant
	}
	if n := status.Counts.Unschedulable; n > 0 {
		message += fmt.Sprintf("; %d of them cordoned by somebody else or not initialised yet", n)
	}
	return report.Done(message)
}

// Explain says in a sentence why a node is pending and what to do.
func Explain(p v1alpha1.PendingNode) string {
	switch p.Reason {
	case v1alpha1.PendingNotFound:
		return fmt.Sprintf("node %s does not exist; it is locked when it appears, or correct spec.reservedNodes", p.Name)
	case v1alpha1.PendingSelectorMismatch:
		return fmt.Sprintf("node %s is named in spec.reservedNodes, but spec.nodeSelector does not match its labels; correct one of them", p.Name)
	case v1alpha1.PendingHeldBy:
		return fmt.Sprintf("node %s is held by Reservation %s; remove it there first", p.Name, p.By)
	case v1alpha1.PendingReleasingFrom:
		if p.By == "" {
			return fmt.Sprintf("node %s is being released and comes when that is done", p.Name)
		}
		return fmt.Sprintf("node %s is being released by tenant %s and comes when its pods have ended", p.Name, p.By)
	case v1alpha1.PendingNodeDeleting:
		return fmt.Sprintf("node %s is being deleted", p.Name)
	case v1alpha1.PendingIndexFull:
		return fmt.Sprintf("the index has no room for node %s and all its namespaces; reserve fewer nodes or accept fewer namespaces", p.Name)
	case v1alpha1.PendingFenceNotProven:
		return fmt.Sprintf("node %s waits until the API server is seen to refuse foreign pods there", p.Name)
	}
	return fmt.Sprintf("node %s: %s", p.Name, p.Reason)
}

func because(waitingFor string) string {
	if waitingFor == "" {
		return ""
	}
	return ": it " + waitingFor
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}
