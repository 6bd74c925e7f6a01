package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// Pods are the pods of the node's tenant that still count (see Occupies), sorted by namespace and name; Listed
	// says that they, and the Node before them, were read past every cache after the grant was.
	Pods   []corev1.Pod
	Listed bool
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
	Evict []corev1.Pod
	// Event is the reason of the event that a successful Patch is worth, or empty.
	Event string
	// Reason and Message say what stands in the way; empty if nothing does. The reason is one of reasons.go.
	Reason, Message string
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
	if s.Reservation == nil {
		return Step{}
	}
	if step, ok := s.handover(); ok {
		return step
	}
	want, err := lock.On(s.Node, s.Reservation)
	if conflict := (*lock.ConflictError)(nil); errors.As(err, &conflict) {
		return Step{Reason: v1alpha1.ReasonTaintConflict, Message: conflict.Error()}
	}
	if lock.Same(s.Node, want) {
		return Step{}
	}
	if !s.Enforced {
		return s.unenforced()
	}
	step := Step{Action: Patch, Node: want}
	if _, releasing := lock.Since(s.Node); releasing && s.Node.Labels[v1alpha1.LabelTenant] == s.Reservation.Spec.Tenant {
		step.Event = v1alpha1.ReasonReleaseAborted
	}
	return step
}

// handover keeps another tenant's lock on the node until that tenant's pods are gone.
func (s Snapshot) handover() (Step, bool) {
	before := s.Node.Labels[v1alpha1.LabelTenant]
	if before == "" || before == s.Reservation.Spec.Tenant {
		return Step{}, false
	}
	switch {
	case !s.Listed:
		return Step{Action: List}, true
	case len(s.Pods) > 0:
		return Step{Action: Wait, Message: s.waitingFor()}, true
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
	case len(s.Pods) == 0, !lock.Bears(s.Node):
		return Step{Action: Drained} // without a lock there is nothing to wait for: nobody was promised anything
	case !marked:
		want := lock.Releasing(s.Node, s.Grant.Reservation, s.Now)
		return Step{Action: Patch, Node: want, Event: v1alpha1.ReasonReleaseStarted, Message: s.waitingFor()}
	}
	if evict := s.evictable(); len(evict) > 0 {
		return Step{Action: Evict, Evict: evict, Message: s.waitingFor()}
	}
	return Step{Action: Wait, Message: s.waitingFor()}
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
		return Step{Action: Wait, Message: s.waitingFor()}
	}
	return Step{Action: Patch, Node: lock.Off(s.Node), Event: v1alpha1.ReasonNodeReleased}
}

// evictable returns the pods to evict now: all that are not ending already, if the Reservation asks for it.
func (s Snapshot) evictable() []corev1.Pod {
	if s.Reservation == nil || !s.Reservation.Spec.EvictOnRelease {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Pods), func(p corev1.Pod) bool { return !p.DeletionTimestamp.IsZero() })
}

func (s Snapshot) unenforced() Step {
	return Step{
		Reason: v1alpha1.ReasonFenceNotProven,
		Message: fmt.Sprintf("node %s waits until the API server is seen to refuse foreign pods there; "+
			"if it stays so, look at: kubectl get validatingadmissionpolicies", s.Node.Name),
	}
}

// waitingFor names the pods that are left, the first three of them.
func (s Snapshot) waitingFor() string {
	const most = 3
	names := make([]string, 0, most)
	for i := range s.Pods[:min(len(s.Pods), most)] {
		names = append(names, s.Pods[i].Namespace+"/"+s.Pods[i].Name)
	}
	text := "waits for " + plural(len(s.Pods), "pod") + " to end: " + strings.Join(names, ", ")
	if more := len(s.Pods) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
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
