package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
)

// Snapshot is everything that the next step of one node rests on, gathered at one moment.
type Snapshot struct {
	// Node is the node. Next does not change it.
	Node *corev1.Node
	// Grant says who has the node; Granted is false if nobody does.
	Grant   allocate.Grant
	Granted bool
	// Enforced says that the API server enforces an index with this grant.
	Enforced bool
	// Reservation is the grant's, or nil if it is gone.
	Reservation *v1alpha1.Reservation
	// Pods are the pods of the node's tenant that still count (see Occupies), and Daemons those of its DaemonSets,
	// which never end by themselves; both sorted by namespace and name. Listed says that they, and the Node before
	// them, were read past every cache after the grant was.
	Pods, Daemons []corev1.Pod
	Listed        bool
	// Locks says how often this lock was put on already.
	Locks Locks
	// Now is the time.
	Now time.Time
}

// Action is what a Step asks the caller to do. It is one thing.
type Action int

const (
	// Rest: the node is as it should be, or its turn has not come.
	Rest Action = iota
	// Patch: write Step.Node, with the resourceVersion of the snapshot's Node as precondition.
	Patch
	// List: read the node and its pods past every cache and ask again.
	List
	// Evict: evict Step.Evict, each with its UID as precondition, and look again when they are gone.
	Evict
	// Wait: watch the node's pods and look again when one is gone.
	Wait
	// Drained: tell allocation that none of the tenant's pods is left.
	Drained
)

// Step is the next thing to do for one node, and why.
type Step struct {
	// Action is what to do.
	Action Action
	// Node is the node as it should be, for Patch.
	Node *corev1.Node
	// Evict holds the pods to evict, for Evict.
	Evict []Eviction
	// Event is the reason of the event that a successful Patch is worth, or empty.
	Event string
	// WaitingFor says what the node waits for, in one sentence; empty if for nothing.
	WaitingFor string
	// Reason and Message say what stands in the way; empty if nothing does. The reason is one of reasons.go.
	Reason, Message string
	// After is when to look again although nothing changed; 0 is never.
	After time.Duration
}

// Next decides the one next step of a node. docs/explanation/node-states.md shows the same as a diagram.
func Next(s Snapshot) Step {
	switch {
	case !s.Granted:
		return Step{} // a lock without a grant is taken up by allocation first
	case s.Grant.Phase == allocate.Held:
		return s.hold()
	case s.Grant.Phase == allocate.Freed:
		return s.free()
	default:
		return s.release()
	}
}

// hold locks the node, or takes it back if its release had begun.
func (s Snapshot) hold() Step {
	if s.Reservation == nil || s.anotherLife() {
		return Step{}
	}
	if step, ok := s.handover(); ok {
		return step
	}
	want, err := lock.On(s.Node, s.Reservation)
	if conflict := (*lock.ConflictError)(nil); errors.As(err, &conflict) {
		// After, because the taint may have gone again before the cache, which wakes, ever saw it.
		return Step{Reason: v1alpha1.ReasonTaintConflict, Message: conflict.Error(), After: recheck}
	}
	if lock.Same(s.Node, want) {
		return Step{}
	}
	if !s.Enforced {
		return s.unenforced()
	}
	step := Step{Action: Patch, Node: want}
	if s.Locks.Count > 0 && !lock.SameMarks(s.Node, want) {
		if wait := s.Locks.pause(s.Now); wait > 0 {
			return Step{After: wait, Reason: v1alpha1.ReasonLockRemoved, Message: s.lockRemoved()}
		}
		step.Event = v1alpha1.ReasonLockRemoved
	}
	if _, releasing := lock.Since(s.Node); releasing && s.Node.Labels[v1alpha1.LabelTenant] == s.Reservation.Spec.Tenant {
		step.Event = v1alpha1.ReasonReleaseAborted
	}
	return step
}

// anotherLife reports whether the grant was made for a Reservation of the same name that accepted other namespaces: the
// cache or the decision is behind, and the next event of what is missing brings the node back.
func (s Snapshot) anotherLife() bool {
	accepted := s.Reservation.AcceptedNamespaces()
	return slices.ContainsFunc(s.Grant.Namespaces, func(namespace string) bool { return !slices.Contains(accepted, namespace) })
}

// handover keeps another tenant's lock on the node until that tenant's pods are gone, those of its DaemonSets too:
// they never end, and the next tenant was promised a node of its own.
func (s Snapshot) handover() (Step, bool) {
	before := s.Node.Labels[v1alpha1.LabelTenant]
	if before == "" || before == s.Reservation.Spec.Tenant {
		return Step{}, false
	}
	switch {
	case !s.Listed:
		return Step{Action: List}, true
	case len(s.Pods) > 0:
		return Step{Action: Wait, WaitingFor: waitingFor(s.Pods), After: recheck}, true
	case unreachable(s.Node):
		return s.unreachable(), true
	case len(s.Daemons) > 0:
		step := Step{Action: Wait, WaitingFor: waitingFor(s.Daemons)}
		if step.Evict = s.evictions(s.Daemons, nil); len(step.Evict) > 0 {
			step.Action = Evict
		}
		return step, true
	}
	return Step{}, false
}

// release brings the node to where none of the tenant's pods is left, and says so.
func (s Snapshot) release() Step {
	if want := lock.Disowned(s.Node); want != nil {
		return Step{Action: Patch, Node: want}
	}
	_, marked := lock.Since(s.Node)
	switch {
	case !s.Enforced:
		return s.unenforced()
	case !s.Listed:
		return Step{Action: List}
	case !lock.Bears(s.Node) && len(s.Pods) > 0:
		// That it never bore one cannot be told from that somebody tore it off. The index lets nobody in meanwhile.
		return Step{Action: Wait, WaitingFor: waitingFor(s.Pods), After: recheck}
	case !lock.Bears(s.Node):
		return Step{Action: Drained}
	case len(s.Pods) == 0 && unreachable(s.Node):
		return s.unreachable()
	case len(s.Pods) == 0:
		return Step{Action: Drained}
	case !marked:
		want := lock.Releasing(s.Node, s.Grant.Reservation, s.Now)
		return Step{Action: Patch, Node: want, Event: v1alpha1.ReasonReleaseStarted, WaitingFor: waitingFor(s.Pods)}
	}
	return s.drain()
}

// free takes the lock off. The tenant's pods were seen to be gone and nobody was let in since; they are looked for
// once more all the same, because this is the write that cannot be taken back.
func (s Snapshot) free() Step {
	switch {
	case !lock.Bears(s.Node):
		return Step{}
	case !s.Enforced:
		return s.unenforced()
	case !s.Listed:
		return Step{Action: List}
	case len(s.Pods) > 0:
		return Step{Action: Wait, WaitingFor: waitingFor(s.Pods), After: recheck}
	case unreachable(s.Node):
		return s.unreachable()
	}
	return Step{Action: Patch, Node: lock.Off(s.Node), Event: v1alpha1.ReasonNodeReleased}
}

func (s Snapshot) unenforced() Step {
	return Step{
		Reason:  v1alpha1.ReasonFenceNotProven,
		Message: fmt.Sprintf("node %s waits until the API server is seen to refuse foreign pods there", s.Node.Name),
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// tenantOf returns the tenant whose pods keep the node: the one whose lock it bears, or, before it bears one, the
// grant's.
func tenantOf(n *corev1.Node, r *v1alpha1.Reservation) string {
	if tenant := n.Labels[v1alpha1.LabelTenant]; tenant != "" || r == nil {
		return tenant
	}
	return r.Spec.Tenant
}
