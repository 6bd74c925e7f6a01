package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
)

// overdue is how long after the end of its grace period a pod that is still there is called stuck. A kubelet needs a
// moment to say that the containers have ended.
const overdue = time.Minute

// recheck is after how long a node that waits, or was written, is looked at although nothing told of a change: what other
// Reservations of its tenant accept, by which a pod counts, may have changed, its kubelet may have come back before the
// cache knew that it was gone, or a watch that broke off may tell of a write and its undoing at once, as no change, though
// the Node was read in between.
const recheck = 5 * time.Minute

// Eviction is one pod to evict.
type Eviction struct {
	// Pod is the pod that was seen; another of its name is left alone.
	Pod corev1.Pod
	// Grace is the termination grace period that it gets, in seconds; nil is its own.
	Grace *int64
	// Delete says that it is deleted if a disruption budget does not let it be evicted.
	Delete bool
}

// drain is a cordoned node under the tenant's pods: it waits for them, and evicts them once that is due. A node that
// does not answer is left alone: nobody would say when its containers have ended. A node that somebody uncordoned is
// not fought over: its pods may end, but are not evicted (CASES.md A16).
func (s Snapshot) drain() Step {
	wait := Step{Action: Wait, WaitingFor: waitingFor(s.Pods), After: s.nextLook()}
	if !unreachable(s.Node) {
		wait.WaitingFor += s.deadlines()
	}
	due := s.due()
	switch {
	case unreachable(s.Node):
		step := s.unreachable()
		step.WaitingFor = wait.WaitingFor
		return step
	case due && !s.Node.Spec.Unschedulable:
		wait.Reason = v1alpha1.ReasonReleaseBlocked
		wait.Message = fmt.Sprintf("node %s was uncordoned by hand while it is being released, so none of its pods is evicted; "+
			"cordon it to go on, or give it back to its Reservation", s.Node.Name)
		return wait
	case due:
		if wait.Evict = s.evictions(s.Pods, s.Reservation); len(wait.Evict) > 0 {
			wait.Action = Evict
		}
	}
	if i := slices.IndexFunc(s.Pods, s.stuck); i >= 0 {
		wait.Reason, wait.Message = v1alpha1.ReasonReleaseBlocked, s.explainStuck(&s.Pods[i])
	}
	return wait
}

// due reports whether the tenant's pods are to be evicted now. Without its Reservation, a release only waits.
func (s Snapshot) due() bool {
	if s.Reservation == nil {
		return false
	}
	spec := &s.Reservation.Spec
	return spec.EvictOnRelease || s.passed(spec.EvictAfter) || s.passed(spec.DeleteAfter)
}

// passed reports whether so much time has gone by since the release began. It is counted from our own mark, which no
// tenant can move, and never from a pod's deadline, which its grace period sets.
func (s Snapshot) passed(d *metav1.Duration) bool {
	since, releasing := lock.Since(s.Node)
	return d != nil && releasing && s.Now.Sub(since) >= d.Duration
}

// evictions returns what to do about each pod as the Reservation says, or with its own grace period without one: about
// those that are not ending, and those whose end is further away than the Reservation grants. A Reservation speaks for its
// own tenant's pods: who bears its name may have been made anew for another, and the node may bear another's lock.
func (s Snapshot) evictions(pods []corev1.Pod, r *v1alpha1.Reservation) []Eviction {
	var most *int64
	remove := false
	if r != nil {
		if d := r.Spec.EvictGracePeriod; d != nil {
			most = ptr.To(max(1, int64(d.Seconds()))) // 0 would take the pod away while its containers may run
		}
		remove = s.passed(r.Spec.DeleteAfter)
	}
	var out []Eviction
	for i := range pods {
		pod := &pods[i]
		if r != nil && !Occupies(withoutOwner(pod), r.Spec.Tenant, r.AcceptedNamespaces()) {
			continue
		}
		e := Eviction{Pod: *pod, Delete: remove}
		own := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
		if most != nil && *most < own {
			e.Grace = most
		}
		ending := pod.DeletionTimestamp
		if ending.IsZero() || e.Grace != nil && ending.Sub(s.Now) > time.Duration(*e.Grace+1)*time.Second {
			out = append(out, e)
		}
	}
	return out
}

// deadlines says when time alone ends the wait, as far as that is known. It does not depend on the time, or the passing
// of one would be worth a write.
func (s Snapshot) deadlines() string {
	text := ""
	say := func(what string, t time.Time) { text += "; " + what + " " + t.UTC().Format(time.RFC3339) }
	since, releasing := lock.Since(s.Node)
	if r := s.Reservation; releasing && r != nil && s.Node.Spec.Unschedulable && s.Node.Labels[v1alpha1.LabelTenant] == r.Spec.Tenant {
		if d := r.Spec.EvictAfter; d != nil && !r.Spec.EvictOnRelease {
			say("they are evicted from", since.Add(d.Duration))
		}
		if d := r.Spec.DeleteAfter; d != nil {
			say("whatever a budget says, they are deleted from", since.Add(d.Duration))
		}
	}
	var last time.Time
	for i := range s.Pods {
		if ending := s.Pods[i].DeletionTimestamp; !ending.IsZero() && ending.After(last) {
			last = ending.Time
		}
	}
	if !last.IsZero() {
		say("the last grace period ends at", last)
	}
	return text
}

// nextLook returns how long until time alone changes the answer, or what tells of no change to this node may.
func (s Snapshot) nextLook() time.Duration {
	next := recheck
	at := func(t time.Time) {
		if d := t.Sub(s.Now); d > 0 {
			next = min(next, d)
		}
	}
	if since, releasing := lock.Since(s.Node); releasing && s.Reservation != nil {
		for _, d := range []*metav1.Duration{s.Reservation.Spec.EvictAfter, s.Reservation.Spec.DeleteAfter} {
			if d != nil {
				at(since.Add(d.Duration))
			}
		}
	}
	for i := range s.Pods {
		if ending := s.Pods[i].DeletionTimestamp; !ending.IsZero() {
			at(ending.Add(overdue))
		}
	}
	return next
}

// stuck reports whether a pod should long have ended.
func (s Snapshot) stuck(pod corev1.Pod) bool {
	return !pod.DeletionTimestamp.IsZero() && s.Now.Sub(pod.DeletionTimestamp.Time) >= overdue
}

func (s Snapshot) explainStuck(pod *corev1.Pod) string {
	if len(pod.Finalizers) > 0 {
		return fmt.Sprintf("node %s is being released, but pod %s/%s is kept by its finalizer %s after its end; who put that on must take it off",
			s.Node.Name, pod.Namespace, pod.Name, pod.Finalizers[0])
	}
	return fmt.Sprintf("node %s is being released, but pod %s/%s has not ended within its grace period; it is never forced: look at the kubelet of the node",
		s.Node.Name, pod.Namespace, pod.Name)
}

// unreachable is the step of a node that does not answer: its containers may run although their pods are gone.
func (s Snapshot) unreachable() Step {
	return Step{
		Action: Wait, Reason: v1alpha1.ReasonNodeUnreachable, After: recheck,
		Message: fmt.Sprintf("node %s does not answer, so nobody knows whether the tenant's containers still run there; it stays locked until its "+
			"kubelet is back, the Node is deleted, or you have switched the machine off and say so: "+
			"kubectl taint node %s %s=nodeshutdown:NoExecute", s.Node.Name, s.Node.Name, corev1.TaintNodeOutOfService),
	}
}

// unreachable reports whether the node's kubelet is out of touch and nobody has vouched that the machine is off
// (Kubernetes, "Non-graceful node shutdown").
func unreachable(node *corev1.Node) bool {
	off := func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }
	if slices.ContainsFunc(node.Spec.Taints, off) {
		return false
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}

// waitingFor names the pods that are left, the first three of them.
func waitingFor(pods []corev1.Pod) string {
	const most = 3
	names := make([]string, 0, most)
	for i := range pods[:min(len(pods), most)] {
		names = append(names, pods[i].Namespace+"/"+pods[i].Name)
	}
	text := "waits for " + plural(len(pods), "pod") + " to end: " + strings.Join(names, ", ")
	if more := len(pods) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
