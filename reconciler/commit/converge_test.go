package commit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// settled makes a Reservation whose nodes are all locked, at resource version 10.
func settled(name string, nodes ...string) v1alpha1.Reservation {
	r := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 2, ResourceVersion: "10"}}
	r.Status = v1alpha1.ReservationStatus{
		ObservedGeneration: 2, Reserved: int32(len(nodes)), Nodes: nodes, Counts: v1alpha1.NodeCounts{Locked: int32(len(nodes))},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded}},
	}
	return r
}

func with(r v1alpha1.Reservation, change func(*v1alpha1.Reservation)) v1alpha1.Reservation {
	change(&r)
	return r
}

func unready(r *v1alpha1.Reservation, reason, message string) {
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}}
}

func absent(n int) []v1alpha1.PendingNode {
	var out []v1alpha1.PendingNode
	for i := range n {
		out = append(out, v1alpha1.PendingNode{Name: fmt.Sprintf("x%03d", i), Reason: v1alpha1.PendingNotFound})
	}
	return out
}

func TestConverge(t *testing.T) {
	draining := func(r *v1alpha1.Reservation) {
		r.Status.Releasing = []v1alpha1.ReleasingNode{{Name: "gpu-04", PodsLeft: 3}}
		r.Status.Counts = v1alpha1.NodeCounts{Locked: r.Status.Reserved - 1, Releasing: 1}
		unready(r, v1alpha1.ReasonNodesReleasing, "node gpu-04 is being released")
	}
	deleting := func(r *v1alpha1.Reservation) { r.DeletionTimestamp = &metav1.Time{Time: at(1).Time} }
	for name, tc := range map[string]struct {
		own      []v1alpha1.Reservation
		expected []string
		deleted  []string
		wantDone bool
		wantText string
	}{
		"nothing":      {wantDone: true, wantText: "0 reservations, 0 nodes locked"},
		"all locked":   {own: []v1alpha1.Reservation{settled("a", "n1"), settled("b", "n2", "n3")}, expected: []string{"a", "b"}, wantDone: true, wantText: "2 reservations, 3 nodes locked"},
		"one not seen": {own: []v1alpha1.Reservation{settled("a", "n1")}, expected: []string{"a", "b"}, wantText: "1 locked"},
		"a stale one":  {own: []v1alpha1.Reservation{with(settled("a", "n1"), func(r *v1alpha1.Reservation) { r.ResourceVersion = "9" })}, expected: []string{"a"}, wantText: "0 locked"},
		"one not looked at yet": {
			own:      []v1alpha1.Reservation{with(settled("a", "n1"), func(r *v1alpha1.Reservation) { r.Generation = 3 })},
			expected: []string{"a"}, wantText: "1 locked, a is being looked at"},
		"one without a status": {
			own:      []v1alpha1.Reservation{with(settled("a"), func(r *v1alpha1.Reservation) { r.Status = v1alpha1.ReservationStatus{} })},
			expected: []string{"a"}, wantText: "0 locked, a is being looked at"},
		"locks on their way": {
			own: []v1alpha1.Reservation{with(settled("a", "n1", "n2"), func(r *v1alpha1.Reservation) {
				r.Status.Counts = v1alpha1.NodeCounts{Locked: 1, Locking: 1}
				unready(r, v1alpha1.ReasonProgressing, "1 of 2 nodes are being locked")
			})},
			expected: []string{"a"}, wantText: "1 locked, 1 being locked"},
		"draining": {
			own: []v1alpha1.Reservation{with(settled("a", "gpu-04", "n2"), draining)}, expected: []string{"a"},
			wantText: "1 locked, gpu-04 draining: 3 pods"},
		"a node that does not exist is no reason to wait": {
			own: []v1alpha1.Reservation{with(settled("a", "n1"), func(r *v1alpha1.Reservation) {
				r.Status.Pending = []v1alpha1.PendingNode{{Name: "n9", Reason: v1alpha1.PendingNotFound}, {Name: "n8", Reason: v1alpha1.PendingHeldBy, By: "b"}}
				r.Status.Counts.Pending = 2
				unready(r, v1alpha1.ReasonNodesPending, "node n9 does not exist")
			})},
			expected: []string{"a"}, wantDone: true, wantText: "1 reservation, 1 node locked; 2 nodes pending (n9: NotFound, n8: HeldBy b)"},
		"a granted node whose object is away": {
			own: []v1alpha1.Reservation{with(settled("a", "n1", "n2"), func(r *v1alpha1.Reservation) {
				r.Status.Counts = v1alpha1.NodeCounts{Locked: 1, Pending: 1}
				r.Status.Pending = []v1alpha1.PendingNode{{Name: "n2", Reason: v1alpha1.PendingNotFound}}
				unready(r, v1alpha1.ReasonNodesPending, "node n2 does not exist")
			})},
			expected: []string{"a"}, wantDone: true, wantText: "1 reservation, 1 node locked; 1 node pending (n2: NotFound)"},
		"a node that comes from another tenant": {
			own: []v1alpha1.Reservation{with(settled("a", "n1"), func(r *v1alpha1.Reservation) {
				r.Status.Pending = []v1alpha1.PendingNode{{Name: "n2", Reason: v1alpha1.PendingReleasingFrom, By: "foo"}}
				r.Status.Counts.Pending, r.Status.Counts.Awaited = 1, 1
				unready(r, v1alpha1.ReasonNodesPending, "")
			})},
			expected: []string{"a"}, wantText: "1 locked, n2 waits: ReleasingFrom foo"},
		"a hundred and fifty nodes that do not exist, more than are listed": {
			own: []v1alpha1.Reservation{with(settled("a", "n1"), func(r *v1alpha1.Reservation) {
				r.Status.Pending = absent(100)
				r.Status.Counts.Pending = 150
				unready(r, v1alpha1.ReasonNodesPending, "")
			})},
			expected: []string{"a"}, wantDone: true,
			wantText: "1 reservation, 1 node locked; 150 nodes pending (x000: NotFound, x001: NotFound, x002: NotFound and 147 more)"},
		"one that comes from another tenant, behind those that are listed": {
			own: []v1alpha1.Reservation{with(settled("a", "n1"), func(r *v1alpha1.Reservation) {
				r.Status.Pending = absent(100)
				r.Status.Counts.Pending, r.Status.Counts.Awaited = 101, 1
				unready(r, v1alpha1.ReasonNodesPending, "")
			})},
			expected: []string{"a"}, wantText: "1 locked, a waits for 1 node"},
		"more on their way back than are listed": {
			own: []v1alpha1.Reservation{with(settled("a", "n1"), func(r *v1alpha1.Reservation) {
				for i := range 100 {
					r.Status.Releasing = append(r.Status.Releasing, v1alpha1.ReleasingNode{Name: fmt.Sprintf("x%03d", i)})
				}
				r.Status.Reserved, r.Status.Counts.Releasing = 151, 150
				unready(r, v1alpha1.ReasonNodesReleasing, "")
			})},
			expected: []string{"a"}, wantText: "1 locked, x000 draining, x001 draining, x002 draining and 147 more"},
		"a node that cannot be changed": {
			own: []v1alpha1.Reservation{with(settled("a", "n1"), func(r *v1alpha1.Reservation) {
				r.Status.Counts = v1alpha1.NodeCounts{Locking: 1}
				unready(r, v1alpha1.ReasonNodePatchForbidden, "node n1 cannot be changed")
			})},
			expected: []string{"a"}, wantText: "0 locked, 1 being locked, a: node n1 cannot be changed"},
		"a lock that stands, and cannot be kept": {
			own: []v1alpha1.Reservation{with(settled("a", "n1"), func(r *v1alpha1.Reservation) {
				unready(r, v1alpha1.ReasonTaintConflict, "node n1 has two taints")
			})},
			expected: []string{"a"}, wantText: "1 locked, a: node n1 has two taints"},
		"one that is being deleted, with its nodes": {
			own:      []v1alpha1.Reservation{settled("a", "n1"), with(with(settled("b", "gpu-04"), draining), deleting)},
			expected: []string{"a"}, wantText: "1 locked, gpu-04 draining: 3 pods"},
		"one whose deletion was not seen yet": {
			own: []v1alpha1.Reservation{settled("a", "n1"), settled("b", "n2")}, expected: []string{"a"}, deleted: []string{"uid-b"},
			wantText: "1 locked"},
		"one that was left in place long ago": {
			own: []v1alpha1.Reservation{settled("a", "n1"), settled("b", "n2")}, expected: []string{"a"},
			wantDone: true, wantText: "1 reservation, 1 node locked"},
	} {
		t.Run(name, func(t *testing.T) {
			expected, deleted := map[string]State{}, map[types.UID]bool{}
			for _, name := range tc.expected {
				expected[name] = State{UID: types.UID("uid-" + name), Generation: 2, ResourceVersion: "10"}
			}
			for _, uid := range tc.deleted {
				deleted[types.UID(uid)] = true
			}
			for range 5 {
				got := Converge(tc.own, expected, deleted)
				require.Equal(t, Convergence{Done: tc.wantDone, Text: tc.wantText}, got)
				rand.Shuffle(len(tc.own), func(i, j int) { tc.own[i], tc.own[j] = tc.own[j], tc.own[i] })
			}
		})
	}
}

func TestDrifted(t *testing.T) {
	base := settled("a", "n1")
	base.Labels = map[string]string{v1alpha1.LabelSource: "tenants"}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.Reservation)
		gone   types.UID
		want   bool
	}{
		"as it was":               {change: func(*v1alpha1.Reservation) {}},
		"another status":          {change: func(r *v1alpha1.Reservation) { r.ResourceVersion, r.Status.Reserved = "11", 7 }},
		"another spec":            {change: func(r *v1alpha1.Reservation) { r.ResourceVersion, r.Generation = "11", 3 }, want: true},
		"an older spec":           {change: func(r *v1alpha1.Reservation) { r.ResourceVersion, r.Generation = "9", 1 }},
		"without its label":       {change: func(r *v1alpha1.Reservation) { r.ResourceVersion, r.Labels = "11", nil }, want: true},
		"with an annotation":      {change: func(r *v1alpha1.Reservation) { r.ResourceVersion, r.Annotations = "11", map[string]string{"a": "b"} }, want: true},
		"an older annotation":     {change: func(r *v1alpha1.Reservation) { r.ResourceVersion, r.Annotations = "9", map[string]string{"a": "b"} }},
		"made again":              {change: func(r *v1alpha1.Reservation) { r.ResourceVersion, r.UID = "11", "new" }, want: true},
		"seen to go":              {change: func(*v1alpha1.Reservation) {}, gone: base.UID, want: true},
		"another one seen to go":  {change: func(*v1alpha1.Reservation) {}, gone: "other"},
		"an object nobody awaits": {change: func(r *v1alpha1.Reservation) { r.Name, r.Generation = "b", 9 }},
	} {
		t.Run(name, func(t *testing.T) {
			expected := map[types.NamespacedName]State{{Name: "a"}: StateOf(&base)}
			live := *base.DeepCopy()
			tc.change(&live)
			require.Equal(t, tc.want, Drifted(expected, []*v1alpha1.Reservation{&live}, map[types.UID]bool{tc.gone: true}))
		})
	}
}
