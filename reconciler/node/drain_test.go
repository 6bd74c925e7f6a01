package node_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/node"
)

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func evictAfter(d time.Duration) func(*v1alpha1.ReservationSpec) {
	return func(s *v1alpha1.ReservationSpec) { s.EvictAfter = duration(d) }
}

func deleteAfter(d time.Duration) func(*v1alpha1.ReservationSpec) {
	return func(s *v1alpha1.ReservationSpec) { s.DeleteAfter = duration(d) }
}

func gracePeriod(d time.Duration) func(*v1alpha1.ReservationSpec) {
	return func(s *v1alpha1.ReservationSpec) { s.EvictGracePeriod = duration(d) }
}

func patience(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(seconds) }
}

// endsAt is a pod that is ending, and has until so long after the release began.
func endsAt(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now.Add(d)} }
}

// at is how a time so long after the release began is written.
func at(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }

func finalizer(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} }

func ready(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	}
}

func switchedOff(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
}

// want is one eviction in short: the pod, its grace period (0: its own), and whether it is deleted if need be.
type want struct {
	pod    string
	grace  int64
	delete bool
}

// A release began at now and is looked at after some time. The rows are those of CASES.md A24 to A26 and LESSONS.md A.
func TestDrain(t *testing.T) {
	pods := func(p ...corev1.Pod) []corev1.Pod { return p }
	nobody := func(n *corev1.Node) {
		uncordoned(n)
		delete(n.Annotations, v1alpha1.AnnotationCordoned)
	}
	cases := map[string]struct {
		node   *corev1.Node
		change []func(*v1alpha1.ReservationSpec)
		pods   []corev1.Pod
		after  time.Duration

		want       node.Action
		wantEvict  []want
		wantAfter  time.Duration
		wantReason string
		wantText   string
	}{
		"it says when pods are evicted and deleted, and until when those that are ending have": {
			change: []func(*v1alpha1.ReservationSpec){evictAfter(time.Hour), deleteAfter(2 * time.Hour)},
			pods:   pods(pod("p", endsAt(24*time.Hour)), pod("q", endsAt(time.Hour)), pod("r")), after: time.Minute, want: node.Wait, wantAfter: 59 * time.Minute,
			wantText: "alpha/r; they are evicted from " + at(time.Hour) + "; whatever a budget says, they are deleted from " + at(2*time.Hour) +
				"; the last grace period ends at " + at(24*time.Hour),
		},
		"and not what an admin's uncordoning has stopped": {
			node: draining("alpha", nobody), change: []func(*v1alpha1.ReservationSpec){evictAfter(time.Hour), deleteAfter(2 * time.Hour)},
			pods: pods(pod("p", endsAt(0))), after: 30 * time.Second, want: node.Wait, wantAfter: 30 * time.Second, wantText: "alpha/p; the last grace period ends at " + at(0) + "\n",
		},
		"by default it waits": {
			pods: pods(pod("p")), after: 100 * time.Hour, want: node.Wait,
		},
		"before evictAfter it waits until then": {
			change: []func(*v1alpha1.ReservationSpec){evictAfter(time.Hour)}, pods: pods(pod("p")), after: 10 * time.Minute,
			want: node.Wait, wantAfter: 50 * time.Minute,
		},
		"at evictAfter it evicts": {
			change: []func(*v1alpha1.ReservationSpec){evictAfter(time.Hour)}, pods: pods(pod("p")), after: time.Hour,
			want: node.Evict, wantEvict: []want{{pod: "p"}},
		},
		"evictOnRelease does not wait for evictAfter": {
			change: []func(*v1alpha1.ReservationSpec){evicting, evictAfter(time.Hour)}, pods: pods(pod("p")), after: time.Minute,
			want: node.Evict, wantEvict: []want{{pod: "p"}}, wantAfter: 59 * time.Minute,
		},
		"between evictAfter and deleteAfter nothing is deleted": {
			change: []func(*v1alpha1.ReservationSpec){evictAfter(time.Hour), deleteAfter(2 * time.Hour)}, pods: pods(pod("p")), after: 90 * time.Minute,
			want: node.Evict, wantEvict: []want{{pod: "p"}}, wantAfter: 30 * time.Minute,
		},
		"from deleteAfter on, budgets do not hold": {
			change: []func(*v1alpha1.ReservationSpec){evictAfter(time.Hour), deleteAfter(2 * time.Hour)}, pods: pods(pod("p")), after: 2 * time.Hour,
			want: node.Evict, wantEvict: []want{{pod: "p", delete: true}},
		},
		"deleteAfter alone evicts, too, and deletes what is held": {
			change: []func(*v1alpha1.ReservationSpec){deleteAfter(time.Hour)}, pods: pods(pod("p")), after: time.Hour,
			want: node.Evict, wantEvict: []want{{pod: "p", delete: true}},
		},
		"evictGracePeriod shortens a longer grace period and no shorter one": {
			change: []func(*v1alpha1.ReservationSpec){evicting, gracePeriod(time.Minute)},
			pods:   pods(pod("default"), pod("long", patience(864000)), pod("short", patience(5))),
			want:   node.Evict, wantEvict: []want{{pod: "default"}, {pod: "long", grace: 60}, {pod: "short"}},
		},
		"a grace period is never less than a second": {
			change: []func(*v1alpha1.ReservationSpec){evicting, gracePeriod(time.Millisecond)}, pods: pods(pod("p")),
			want: node.Evict, wantEvict: []want{{pod: "p", grace: 1}},
		},
		"a pod that its tenant deleted with days to end is shortened once eviction is due": {
			change: []func(*v1alpha1.ReservationSpec){evicting, gracePeriod(time.Minute)},
			pods:   pods(pod("p", patience(864000), endsAt(240*time.Hour))), after: time.Second,
			want: node.Evict, wantEvict: []want{{pod: "p", grace: 60}}, wantAfter: 240*time.Hour + time.Minute - time.Second,
		},
		"and left alone once it ends in time": {
			change: []func(*v1alpha1.ReservationSpec){evicting, gracePeriod(time.Minute)},
			pods:   pods(pod("p", patience(864000), endsAt(time.Minute))), after: 0, want: node.Wait, wantAfter: 2 * time.Minute,
		},
		"and before that: its end is its own affair": {
			change: []func(*v1alpha1.ReservationSpec){gracePeriod(time.Minute)},
			pods:   pods(pod("p", patience(864000), endsAt(240*time.Hour))), want: node.Wait, wantAfter: 240*time.Hour + time.Minute,
		},
		"a pod that its finalizer keeps after its end is reported and never forced": {
			change: []func(*v1alpha1.ReservationSpec){evicting, deleteAfter(time.Second)},
			pods:   pods(pod("p", endsAt(0), finalizer)), after: 2 * time.Minute,
			want: node.Wait, wantReason: v1alpha1.ReasonReleaseBlocked, wantText: "pod alpha/p is kept by its finalizer example.com/keep",
		},
		"a pod whose end the kubelet does not confirm is reported and never forced": {
			pods: pods(pod("p", endsAt(0))), after: time.Minute,
			want: node.Wait, wantReason: v1alpha1.ReasonReleaseBlocked, wantText: "pod alpha/p has not ended within its grace period",
		},
		"one that is ending in time is not": {
			pods: pods(pod("p", endsAt(0))), after: 59 * time.Second, want: node.Wait, wantAfter: time.Second,
		},
		"what is stuck does not keep the others from being evicted": {
			change: []func(*v1alpha1.ReservationSpec){evicting}, pods: pods(pod("p", endsAt(0), finalizer), pod("q")), after: time.Hour,
			want: node.Evict, wantEvict: []want{{pod: "q"}}, wantReason: v1alpha1.ReasonReleaseBlocked, wantText: "alpha/p",
		},
		"on a node that does not answer nothing is evicted": {
			node: draining("alpha", ready(corev1.ConditionUnknown)), change: []func(*v1alpha1.ReservationSpec){evicting, deleteAfter(time.Second)},
			pods: pods(pod("p")), after: time.Hour,
			want: node.Wait, wantAfter: 5 * time.Minute, wantReason: v1alpha1.ReasonNodeUnreachable, wantText: "alpha/p\nnode gpu-01 does not answer",
		},
		"a node that does not answer is not drained when its pods are gone": {
			node: draining("alpha", ready(corev1.ConditionUnknown)), after: time.Hour,
			want: node.Wait, wantAfter: 5 * time.Minute, wantReason: v1alpha1.ReasonNodeUnreachable, wantText: "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
		},
		"the pods of another tenant are not evicted as a Reservation says that bears the name of theirs": {
			node: draining("beta"), change: []func(*v1alpha1.ReservationSpec){evicting, deleteAfter(time.Second)},
			pods: pods(pod("p", in("beta"))), after: time.Hour, want: node.Wait, wantAfter: 5 * time.Minute, wantText: "beta/p",
		},
		"unless somebody has said that the machine is off": {
			node: draining("alpha", ready(corev1.ConditionUnknown), switchedOff), after: time.Hour, want: node.Drained,
		},
		"a node that is not ready, but says so, is drained like any other": {
			node: draining("alpha", ready(corev1.ConditionFalse)), after: time.Hour, want: node.Drained,
		},
		"a node that somebody uncordoned is not fought over: nothing is evicted": {
			node: draining("alpha", nobody), change: []func(*v1alpha1.ReservationSpec){evicting}, pods: pods(pod("p")), after: time.Hour,
			want: node.Wait, wantReason: v1alpha1.ReasonReleaseBlocked, wantText: "node gpu-01 was uncordoned by hand",
		},
		"and its pods may end by themselves": {
			node: draining("alpha", nobody), change: []func(*v1alpha1.ReservationSpec){evicting}, after: time.Hour, want: node.Drained,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := c.node
			if n == nil {
				n = draining("alpha")
			}
			step := node.Next(node.Snapshot{
				Node: n, Grant: releasingByAlpha, Granted: true, Enforced: true, Reservation: reservation("alpha", c.change...),
				Listed: true, Pods: c.pods, Now: now.Add(c.after),
			})
			require.Equal(t, c.want, step.Action)
			var evict []want
			for _, e := range step.Evict {
				evict = append(evict, want{e.Pod.Name, ptr.Deref(e.Grace, 0), e.Delete})
			}
			require.Equal(t, c.wantEvict, evict)
			if c.want == node.Wait || c.want == node.Evict {
				// Whatever it waits for, it is looked at once in a while: a watch may have told of nothing.
				c.wantAfter = min(cmp.Or(c.wantAfter, node.Recheck), node.Recheck)
			}
			require.Equal(t, c.wantAfter, step.After)
			require.Equal(t, c.wantReason, step.Reason)
			require.Contains(t, step.WaitingFor+"\n"+step.Message, c.wantText)
		})
	}
}

// The last write looks at the kubelet, too, and so does a handover.
func TestANodeThatDoesNotAnswerKeepsItsLock(t *testing.T) {
	silent := draining("alpha", ready(corev1.ConditionUnknown))
	for name, s := range map[string]node.Snapshot{
		"freed":     {Grant: freedByAlpha},
		"handover":  {Grant: heldByBeta, Reservation: reservation("beta")},
		"releasing": {Grant: releasingByAlpha, Reservation: reservation("alpha")},
		"orphaned":  {Grant: allocate.Grant{Reservation: allocate.Orphan, Phase: allocate.Freed}},
	} {
		t.Run(name, func(t *testing.T) {
			s.Node, s.Granted, s.Enforced, s.Listed, s.Now = silent, true, true, true, now
			step := node.Next(s)
			require.Equal(t, node.Wait, step.Action)
			require.Equal(t, v1alpha1.ReasonNodeUnreachable, step.Reason)
		})
	}
}

func TestAHandoverEvictsTheDaemonSetsOfTheTenantBefore(t *testing.T) {
	s := node.Snapshot{
		Node: draining("alpha"), Grant: heldByBeta, Granted: true, Enforced: true, Listed: true, Now: now.Add(time.Hour),
		Reservation: reservation("beta", gracePeriod(time.Second), deleteAfter(time.Second)), Daemons: []corev1.Pod{pod("exporter")},
	}
	step := node.Next(s)
	require.Equal(t, node.Evict, step.Action)
	require.Equal(t, []node.Eviction{{Pod: s.Daemons[0]}}, step.Evict, "what the next tenant's Reservation says is not for them")
	require.Contains(t, step.WaitingFor, "alpha/exporter")

	s.Daemons = []corev1.Pod{pod("exporter", endsAt(2*time.Hour))}
	require.Equal(t, node.Wait, node.Next(s).Action)
	s.Pods = []corev1.Pod{pod("training")}
	require.Contains(t, node.Next(s).WaitingFor, "alpha/training", "the others come first")
	s.Pods, s.Daemons = nil, nil
	require.Equal(t, locked("beta"), node.Next(s).Node)

	free := node.Snapshot{
		Node: draining("alpha"), Grant: freedByAlpha, Granted: true, Enforced: true, Listed: true, Now: now, Daemons: []corev1.Pod{pod("exporter")},
	}
	require.Equal(t, node.Patch, node.Next(free).Action, "they do not hold a release")
}

func TestALockThatIsRemovedAgainAndAgainIsPutBackWithGrowingPauses(t *testing.T) {
	half := locked("alpha", func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelTenant) })
	ask := func(n *corev1.Node, l node.Locks, ago time.Duration) node.Step {
		l.Last = now.Add(-ago)
		return node.Next(node.Snapshot{
			Node: n, Grant: heldByAlpha, Granted: true, Enforced: true, Reservation: reservation("alpha"), Locks: l, Now: now,
		})
	}
	require.Empty(t, ask(half, node.Locks{}, 0).Event, "after a restart nobody knows whether it was there before")
	first := ask(half, node.Locks{Count: 1}, 0)
	require.Equal(t, node.Patch, first.Action, "the first time it comes back at once")
	require.Equal(t, v1alpha1.ReasonLockRemoved, first.Event)
	for count, pause := range map[int]time.Duration{2: time.Second, 3: 2 * time.Second, 5: 8 * time.Second, 30: 5 * time.Minute} {
		step := ask(half, node.Locks{Count: count, Suspect: " (besides the operator, janitor wrote the node last)"}, 0)
		require.Equal(t, node.Rest, step.Action)
		require.Equal(t, pause, step.After)
		require.Equal(t, v1alpha1.ReasonLockRemoved, step.Reason)
		require.Contains(t, step.Message, "janitor wrote the node last")
		require.Equal(t, node.Patch, ask(half, node.Locks{Count: count}, pause).Action)
	}
	require.Equal(t, node.Patch, ask(half, node.Locks{Count: 30}, 10*time.Minute).Action, "a lock that stood for long is not a fight")
	effectless := locked("alpha", func(n *corev1.Node) { delete(n.Annotations, v1alpha1.AnnotationTaintEffect) })
	require.Equal(t, time.Second, ask(effectless, node.Locks{Count: 2}, 0).After, "every mark counts")
	marked := locked("alpha", func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationCordoned] = "r-alpha" })
	require.Empty(t, ask(marked, node.Locks{Count: 3}, 0).Event, "a cordon is no lock")
}
