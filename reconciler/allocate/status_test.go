package allocate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
)

// inOrder is a node that is held and whole.
func inOrder(name string) NodeFacts {
	return NodeFacts{Name: name, Exists: true, Locked: true, InOrder: true}
}

// onItsWay is a node that is held and not locked yet.
func onItsWay(name string) NodeFacts { return NodeFacts{Name: name, Exists: true} }

// leaving is a node that is being released.
func leaving(name string, r ledger.Report) NodeFacts {
	return NodeFacts{Name: name, Phase: Releasing, Exists: true, Locked: true, Since: &epoch, Report: r}
}

func troubled(n NodeFacts, reason, message string) NodeFacts {
	n.Report = ledger.Report{Reason: reason, Message: message}
	return n
}

func TestDescribe(t *testing.T) {
	since := metav1.NewTime(epoch)
	annotated := func(r *v1alpha1.Reservation) {
		r.Annotations = map[string]string{v1alpha1.AnnotationRevision: "main@sha1:abc"}
	}
	cases := map[string]struct {
		change     change
		nodes      []NodeFacts
		pending    []v1alpha1.PendingNode
		unenforced bool

		want              v1alpha1.ReservationStatus // without observedGeneration and namespaces
		wantReason        string
		wantMessage       string
		wantCounts        [3]int
		wantUnschedulable int32
	}{
		"all nodes locked": {
			nodes:      []NodeFacts{inOrder("n1"), inOrder("n2")},
			want:       v1alpha1.ReservationStatus{Reserved: 2, Nodes: []string{"n1", "n2"}},
			wantReason: v1alpha1.ReasonSucceeded, wantMessage: "2 nodes are locked for foo", wantCounts: [3]int{2, 0, 0},
		},
		"no nodes at all": {wantReason: v1alpha1.ReasonSucceeded, wantMessage: "0 nodes are locked for foo"},
		"one on its way": {
			nodes: []NodeFacts{inOrder("n1"), onItsWay("n2")}, want: v1alpha1.ReservationStatus{Reserved: 1, Nodes: []string{"n1", "n2"}},
			wantReason: v1alpha1.ReasonProgressing, wantMessage: "1 of 2 nodes are being locked", wantCounts: [3]int{1, 0, 1},
		},
		"one that bears the lock, but not as it should": {
			nodes: []NodeFacts{{Name: "n1", Exists: true, Locked: true}}, want: v1alpha1.ReservationStatus{Reserved: 1, Nodes: []string{"n1"}},
			wantReason: v1alpha1.ReasonProgressing, wantMessage: "1 of 1 nodes", wantCounts: [3]int{1, 0, 0},
		},
		"one away": {
			nodes: []NodeFacts{inOrder("n1"), {Name: "n2"}}, pending: []v1alpha1.PendingNode{why("n2", v1alpha1.PendingNotFound)},
			want:       v1alpha1.ReservationStatus{Reserved: 1, Nodes: []string{"n1", "n2"}, Pending: []v1alpha1.PendingNode{why("n2", v1alpha1.PendingNotFound)}},
			wantReason: v1alpha1.ReasonNodesPending, wantMessage: "node n2 does not exist; it is locked when it appears", wantCounts: [3]int{1, 0, 1},
		},
		"two pending": {
			pending:    []v1alpha1.PendingNode{why("n1", v1alpha1.PendingHeldBy, "bar"), why("n2", v1alpha1.PendingNotFound)},
			want:       v1alpha1.ReservationStatus{Pending: []v1alpha1.PendingNode{why("n1", v1alpha1.PendingHeldBy, "bar"), why("n2", v1alpha1.PendingNotFound)}},
			wantReason: v1alpha1.ReasonNodesPending, wantMessage: "node n1 is held by Reservation bar; remove it there first (and 1 more)", wantCounts: [3]int{0, 0, 2},
		},
		"one releasing": {
			nodes: []NodeFacts{inOrder("n1"), leaving("n2", ledger.Report{PodsLeft: 3, WaitingFor: "waits for 3 pods to end: a/b"})},
			want: v1alpha1.ReservationStatus{Reserved: 2, Nodes: []string{"n1", "n2"}, Releasing: []v1alpha1.ReleasingNode{
				{Name: "n2", Since: &since, PodsLeft: 3, WaitingFor: "waits for 3 pods to end: a/b"}}},
			wantReason: v1alpha1.ReasonNodesReleasing, wantMessage: "node n2 is being released: it waits for 3 pods to end: a/b", wantCounts: [3]int{1, 1, 0},
		},
		"releasing comes before pending": {
			nodes:      []NodeFacts{leaving("n2", ledger.Report{}), leaving("n3", ledger.Report{})},
			pending:    []v1alpha1.PendingNode{why("n1", v1alpha1.PendingNotFound)},
			want:       v1alpha1.ReservationStatus{Reserved: 2, Nodes: []string{"n2", "n3"}, Pending: []v1alpha1.PendingNode{why("n1", v1alpha1.PendingNotFound)}, Releasing: []v1alpha1.ReleasingNode{{Name: "n2", Since: &since}, {Name: "n3", Since: &since}}},
			wantReason: v1alpha1.ReasonNodesReleasing, wantMessage: "node n2 is being released (and 1 more)", wantCounts: [3]int{0, 2, 1},
		},
		"a freed node is on its way out too": {
			nodes: []NodeFacts{{Name: "n1", Phase: Freed, Exists: true}}, want: v1alpha1.ReservationStatus{Nodes: []string{"n1"}, Releasing: []v1alpha1.ReleasingNode{{Name: "n1"}}},
			wantReason: v1alpha1.ReasonNodesReleasing, wantMessage: "node n1 is being released", wantCounts: [3]int{0, 1, 0},
		},
		"the fence is not proven: what is not locked yet waits for it, sorted among the others": {
			nodes: []NodeFacts{onItsWay("n1"), inOrder("n2"), onItsWay("n4"), {Name: "n5"}}, unenforced: true,
			pending: []v1alpha1.PendingNode{why("n3", v1alpha1.PendingNotFound), why("n5", v1alpha1.PendingNotFound)},
			want: v1alpha1.ReservationStatus{Reserved: 1, Nodes: []string{"n1", "n2", "n4", "n5"}, Pending: []v1alpha1.PendingNode{
				why("n1", v1alpha1.PendingFenceNotProven), why("n3", v1alpha1.PendingNotFound), why("n4", v1alpha1.PendingFenceNotProven), why("n5", v1alpha1.PendingNotFound)}},
			wantReason: v1alpha1.ReasonFenceNotProven, wantMessage: "so none is locked or released until it is; look there", wantCounts: [3]int{1, 0, 4},
		},
		"a node is pending for one reason only": {
			nodes: []NodeFacts{onItsWay("n1")}, unenforced: true, pending: []v1alpha1.PendingNode{why("n1", v1alpha1.PendingIndexFull)},
			want:       v1alpha1.ReservationStatus{Nodes: []string{"n1"}, Pending: []v1alpha1.PendingNode{why("n1", v1alpha1.PendingIndexFull)}},
			wantReason: v1alpha1.ReasonFenceNotProven, wantMessage: "look there", wantCounts: [3]int{0, 0, 2},
		},
		"a node that cannot be changed comes first": {
			nodes: []NodeFacts{troubled(onItsWay("n1"), v1alpha1.ReasonFenceNotProven, "fence"), troubled(onItsWay("n2"), v1alpha1.ReasonNodePatchForbidden, "can-i"),
				troubled(onItsWay("n3"), v1alpha1.ReasonTaintConflict, "conflict"), leaving("n4", ledger.Report{})},
			want:       v1alpha1.ReservationStatus{Reserved: 1, Nodes: []string{"n1", "n2", "n3", "n4"}, Releasing: []v1alpha1.ReleasingNode{{Name: "n4", Since: &since}}},
			wantReason: v1alpha1.ReasonNodePatchForbidden, wantMessage: "can-i (and 1 more)", wantCounts: [3]int{0, 1, 3},
		},
		"what a node said of the fence before it was proven is not repeated": {
			nodes: []NodeFacts{troubled(onItsWay("n1"), v1alpha1.ReasonFenceNotProven, "fence")}, want: v1alpha1.ReservationStatus{Nodes: []string{"n1"}},
			wantReason: v1alpha1.ReasonProgressing, wantMessage: "1 of 1", wantCounts: [3]int{0, 0, 1},
		},
		"an unreadable selector comes before all": {
			change: unreadable, nodes: []NodeFacts{troubled(inOrder("n1"), v1alpha1.ReasonNodePatchForbidden, "x")}, unenforced: true,
			want:       v1alpha1.ReservationStatus{Reserved: 1, Nodes: []string{"n1"}},
			wantReason: v1alpha1.ReasonInvalidNodeSelector, wantMessage: "correct it. Nodes that are held stay held", wantCounts: [3]int{1, 0, 0},
		},
		"foreign pods are counted, and stop nothing": {
			nodes: []NodeFacts{{Name: "n1", Exists: true, Locked: true, InOrder: true, Report: ledger.Report{ForeignPods: []string{"a/b", "a/c"}}},
				{Name: "n2", Exists: true, Locked: true, InOrder: true, Report: ledger.Report{ForeignPods: []string{"d/e"}}}},
			want:       v1alpha1.ReservationStatus{Reserved: 2, Nodes: []string{"n1", "n2"}, ForeignPods: 3},
			wantReason: v1alpha1.ReasonSucceeded, wantMessage: "2 nodes", wantCounts: [3]int{2, 0, 0},
		},
		"what takes no new pods is the tenant's all the same, and is told apart": {
			nodes: []NodeFacts{inOrder("n1"), {Name: "n2", Exists: true, Locked: true, InOrder: true, Unschedulable: true}},
			want:  v1alpha1.ReservationStatus{Reserved: 2, Nodes: []string{"n1", "n2"}}, wantReason: v1alpha1.ReasonSucceeded,
			wantMessage: "2 nodes are locked for foo; 1 of them cordoned by somebody else or not initialised yet", wantCounts: [3]int{2, 0, 0},
			wantUnschedulable: 1,
		},
		"the revision is that of the source": {
			change: annotated, want: v1alpha1.ReservationStatus{Revision: "main@sha1:abc"}, wantReason: v1alpha1.ReasonSucceeded, wantMessage: "0 nodes",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := res("foo", generation(4), accepting("z", "a"))
			if c.change != nil {
				c.change(&r)
			}
			facts := ReservationFacts{Reservation: &r, Nodes: c.nodes, Pending: c.pending, Doubt: doubt(!c.unenforced)}
			before := r.DeepCopy()
			status, outcome := Describe(facts)
			c.want.ObservedGeneration, c.want.Namespaces = 4, []string{"a", "z"}
			n := facts.Counts()
			require.Equal(t, c.wantCounts, [3]int{int(n.Locked), int(n.Releasing), int(n.Locking + n.Pending)})
			require.Equal(t, c.wantUnschedulable, n.Unschedulable)
			c.want.Counts = n
			requireSame(t, c.want, status)
			require.Equal(t, c.wantReason, outcome.Reason())
			require.Contains(t, outcome.Message(), c.wantMessage)
			require.Equal(t, c.wantReason == v1alpha1.ReasonSucceeded, outcome.OK())
			require.Equal(t, before, &r, "the Reservation is not changed")
		})
	}
}

func TestCases_A28_TheStatusOfALargeReservationIsBounded(t *testing.T) {
	r := res("foo")
	facts := ReservationFacts{Reservation: &r}
	for i := range 3000 {
		facts.Nodes = append(facts.Nodes, leaving(fmt.Sprintf("gpu-%04d", i), ledger.Report{WaitingFor: strings.Repeat("x", 300)}))
		facts.Pending = append(facts.Pending, why(fmt.Sprintf("gpu-%04d", 5000+i), v1alpha1.PendingNotFound))
	}
	status, outcome := Describe(facts)
	require.Len(t, status.Nodes, 3000)
	require.Len(t, status.Releasing, maxListed)
	require.Len(t, status.Pending, maxListed)
	require.Contains(t, outcome.Message(), "(and 2999 more)", "the total is said all the same")
	require.Len(t, facts.Pending, 3000)
	require.Equal(t, v1alpha1.NodeCounts{Releasing: 3000, Pending: 3000}, status.Counts, "counts are not cut")
}

func TestCounts(t *testing.T) {
	facts := ReservationFacts{
		Nodes: []NodeFacts{inOrder("n1"), inOrder("n2"), inOrder("n3"), onItsWay("n4"), leaving("n5", ledger.Report{}), {Name: "n6"}},
		Pending: []v1alpha1.PendingNode{why("n6", v1alpha1.PendingNotFound), why("n7", v1alpha1.PendingHeldBy, "bar"),
			why("n8", v1alpha1.PendingReleasingFrom, "bar"), why("n9", v1alpha1.PendingNodeDeleting)},
	}
	require.Equal(t, v1alpha1.NodeCounts{Locked: 3, Locking: 1, Releasing: 1, Pending: 4, Awaited: 2}, facts.Counts())
}

func TestExplainSaysWhatToDo(t *testing.T) {
	for _, reason := range []v1alpha1.PendingReason{
		v1alpha1.PendingNotFound, v1alpha1.PendingSelectorMismatch, v1alpha1.PendingHeldBy, v1alpha1.PendingReleasingFrom,
		v1alpha1.PendingNodeDeleting, v1alpha1.PendingIndexFull, v1alpha1.PendingFenceNotProven, "New",
	} {
		for _, by := range []string{"", "bar"} {
			said := Explain(v1alpha1.PendingNode{Name: "gpu-01", Reason: reason, By: by})
			require.Contains(t, said, "node gpu-01")
			require.NotContains(t, said, "%!")
			require.NotContains(t, said, "  ")
			if by != "" && (reason == v1alpha1.PendingHeldBy || reason == v1alpha1.PendingReleasingFrom) {
				require.Contains(t, said, by)
			}
		}
	}
}

func TestMarkExclusiveNamesTheForeignPods(t *testing.T) {
	r := res("foo")
	markExclusive(&r, []NodeFacts{inOrder("n1")})
	require.Equal(t, metav1.ConditionTrue, r.Status.Conditions[0].Status)
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("default/p%02d", i))
	}
	markExclusive(&r, []NodeFacts{{Name: "n2", Report: ledger.Report{ForeignPods: many}}, {Name: "n1", Report: ledger.Report{ForeignPods: []string{"a/b"}}}})
	require.Len(t, r.Status.Conditions, 1)
	c := r.Status.Conditions[0]
	require.Equal(t, metav1.ConditionFalse, c.Status)
	require.Equal(t, v1alpha1.ReasonForeignPods, c.Reason)
	require.Contains(t, c.Message, "let in: a/b on n1, default/p00 on n2, ")
	require.True(t, strings.HasSuffix(c.Message, "(and 3 more)"), c.Message)
}

// doubt is what View.Publish is told of a fence that stands or does not.
func doubt(enforced bool) string {
	if enforced {
		return ""
	}
	return "look there"
}

func TestMarkFence(t *testing.T) {
	r := res("foo", generation(2))
	markFence(&r, "")
	first := r.Status.Conditions[0]
	require.Equal(t, metav1.ConditionTrue, first.Status)
	require.EqualValues(t, 2, first.ObservedGeneration)
	time.Sleep(2 * time.Millisecond)
	markFence(&r, "")
	require.Equal(t, first, r.Status.Conditions[0], "what is so already keeps its time")
	markFence(&r, doubt(false))
	require.Equal(t, metav1.ConditionFalse, r.Status.Conditions[0].Status)
	require.Equal(t, v1alpha1.ReasonFenceNotProven, r.Status.Conditions[0].Reason)
	require.Equal(t, "the API server was not seen to refuse foreign pods on reserved nodes; look there", r.Status.Conditions[0].Message)
}

func TestStatusDelay(t *testing.T) {
	for nodes, want := range map[int]time.Duration{0: 200 * time.Millisecond, 100: 300 * time.Millisecond, 1000: 1200 * time.Millisecond, 10_000: 2 * time.Second} {
		require.Equal(t, want, statusDelay(nodes), nodes)
	}
}
