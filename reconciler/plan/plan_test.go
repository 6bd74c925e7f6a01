package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// reservation makes one of the tenant in its name: "foo-2" is tenant foo's second.
func reservation(name string, nodes ...string) v1alpha1.Reservation {
	var tenant string
	_, _ = fmt.Sscanf(name, "%3s", &tenant)
	r := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(epoch)}}
	r.Spec = v1alpha1.ReservationSpec{Tenant: tenant, ReservedNodes: append([]string{}, nodes...)}
	return r
}

func evicting(r v1alpha1.Reservation) v1alpha1.Reservation {
	r.Spec.EvictOnRelease = true
	return r
}

// nodes makes free nodes n1 to n<count>.
func nodes(count int) []allocate.Node {
	var out []allocate.Node
	for i := range count {
		out = append(out, allocate.Node{Name: fmt.Sprintf("n%d", i+1)})
	}
	return out
}

// settled returns the nodes and the index as they are when the Reservations have been served.
func settled(count int, reservations ...v1alpha1.Reservation) ([]allocate.Node, allocate.Index) {
	all := nodes(count)
	index := allocate.Decide(allocate.Snapshot{Reservations: reservations, Nodes: all}).Index
	for i := range all {
		if grant, ok := index.Grants[all[i].Name]; ok {
			all[i].Holder, all[i].Tenant = grant.Reservation, grant.Reservation[:3]
			all[i].Labels = map[string]string{v1alpha1.LabelTenant: all[i].Tenant}
		}
	}
	return all, index
}

func list(r ...v1alpha1.Reservation) []v1alpha1.Reservation { return r }

func TestMake(t *testing.T) {
	for name, tc := range map[string]struct {
		before, set []v1alpha1.Reservation
		deleted     []string
		pods        map[string]int
		want        Plan
		wantText    string
	}{
		"nothing": {wantText: "nothing to do"},
		"a first Reservation": {
			set:      list(reservation("foo", "n1", "n2")),
			want:     Plan{Locked: []Lock{{"n1", "foo", "foo"}, {"n2", "foo", "foo"}}},
			wantText: "2 nodes locked (n1, n2)"},
		"the same again": {
			before: list(reservation("foo", "n1")), set: list(reservation("foo", "n1")), wantText: "nothing to do"},
		"one more, one less": {
			before: list(reservation("foo", "n1", "n2")), set: list(reservation("foo", "n2", "n3")),
			want: Plan{
				Locked:   []Lock{{"n3", "foo", "foo"}},
				Released: []Release{{Node: "n1", Reservation: "foo", Tenant: "foo", Pods: -1}}},
			wantText: "1 node locked (n3), 1 node released (n1)"},
		"a release with pods": {
			before: list(reservation("foo", "n1", "n2")), set: list(reservation("foo")), pods: map[string]int{"n1": 3, "n2": 0},
			want: Plan{Released: []Release{
				{Node: "n1", Reservation: "foo", Tenant: "foo", Pods: 3}, {Node: "n2", Reservation: "foo", Tenant: "foo"}}},
			wantText: "2 nodes released (n1: waits for 3 pods, n2)"},
		"a release that evicts": {
			before: list(reservation("foo", "n1")), set: list(evicting(reservation("foo"))), pods: map[string]int{"n1": 1},
			want:     Plan{Released: []Release{{Node: "n1", Reservation: "foo", Tenant: "foo", Pods: 1, Evicts: true}}},
			wantText: "1 node released (n1: evicts 1 pod)"},
		"a deletion": {
			before: list(evicting(reservation("foo", "n1"))), deleted: []string{"foo"},
			want:     Plan{Released: []Release{{Node: "n1", Reservation: "foo", Tenant: "foo", Pods: -1, Evicts: true}}},
			wantText: "1 node released (n1)"},
		"a Reservation that the commit does not touch": {
			before: list(reservation("foo", "n1"), reservation("bar", "n2")), set: list(reservation("foo")),
			want:     Plan{Released: []Release{{Node: "n1", Reservation: "foo", Tenant: "foo", Pods: -1}}},
			wantText: "1 node released (n1)"},
		"a node from one tenant to another": {
			before: list(reservation("foo", "n1", "n2"), reservation("bar", "n3")),
			set:    list(reservation("foo", "n1"), reservation("bar", "n2", "n3")),
			want:   Plan{HandedOver: []Handover{{Node: "n2", From: "foo", To: "bar", FromTenant: "foo", ToTenant: "bar", Pods: -1}}}, wantText: "1 node handed over (n2 from foo to bar)"},
		"another name for a Reservation": {
			before: list(reservation("foo", "n1")), set: list(reservation("foo-2", "n1")), deleted: []string{"foo"},
			want:     Plan{HandedOver: []Handover{{Node: "n1", From: "foo", To: "foo-2", FromTenant: "foo", ToTenant: "foo", Pods: -1}}},
			wantText: "1 node handed over (n1 from foo to foo-2)"},
		"a node that another one keeps": {
			before: list(reservation("foo", "n1")), set: list(reservation("bar", "n1")),
			want:     Plan{Pending: []Pending{{Node: "n1", Reservation: "bar", Reason: v1alpha1.PendingHeldBy, By: "foo"}}},
			wantText: "1 node pending (n1: HeldBy foo)"},
		"a node that does not exist": {
			set: list(reservation("foo", "n1", "n9")),
			want: Plan{
				Locked:  []Lock{{"n1", "foo", "foo"}},
				Pending: []Pending{{Node: "n9", Reservation: "foo", Reason: v1alpha1.PendingNotFound}}},
			wantText: "1 node locked (n1), 1 node pending (n9: NotFound)"},
		"what was pending before is no news": {
			before: list(reservation("foo", "n9")), set: list(reservation("foo", "n9", "n1")),
			want: Plan{Locked: []Lock{{"n1", "foo", "foo"}}}, wantText: "1 node locked (n1)"},
		"many nodes": {
			set: list(reservation("foo", "n1", "n2", "n3", "n4", "n5", "n6", "n7")),
			want: Plan{Locked: []Lock{{"n1", "foo", "foo"}, {"n2", "foo", "foo"}, {"n3", "foo", "foo"}, {"n4", "foo", "foo"},
				{"n5", "foo", "foo"}, {"n6", "foo", "foo"}, {"n7", "foo", "foo"}}},
			wantText: "7 nodes locked (n1, n2, n3, n4, n5 and 2 more)"},
	} {
		t.Run(name, func(t *testing.T) {
			all, index := settled(8, tc.before...)
			in := Input{Before: tc.before, After: After(tc.before, tc.set, tc.deleted), Nodes: all, Index: index, Pods: tc.pods}
			for range 10 {
				got := Make(in)
				require.Empty(t, cmp.Diff(tc.want, got))
				require.Equal(t, tc.wantText, got.String())
				rand.Shuffle(len(in.Before), func(i, j int) { in.Before[i], in.Before[j] = in.Before[j], in.Before[i] })
				rand.Shuffle(len(in.After), func(i, j int) { in.After[i], in.After[j] = in.After[j], in.After[i] })
				rand.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
			}
		})
	}
}

func TestObjectsAndCounts(t *testing.T) {
	before := list(reservation("foo", "n1", "n2"), reservation("bar", "n3"))
	all, index := settled(8, before...)
	p := Make(Input{
		Before: before, After: After(before, list(reservation("foo", "n4"), reservation("bar", "n3", "n2")), nil),
		Nodes: all, Index: index,
		Created: []string{"Namespace b", "Namespace a"}, Changed: []string{"Reservation foo"}, Deleted: []string{"LimitRange x"},
		Warnings: []string{"careful"},
	})
	require.Equal(t, "2 objects created, 1 object changed, 1 object deleted; 1 node locked (n4), 1 node released (n1), 1 node handed over (n2 from foo to bar)", p.String())
	require.Equal(t, []string{"Namespace a", "Namespace b"}, p.Created)
	require.Equal(t, []string{"careful"}, p.Warnings)
	require.Equal(t, 2, p.NodesLocked())
	require.Equal(t, 2, p.NodesReleased())
	require.False(t, p.IsEmpty())
	require.True(t, Plan{Warnings: []string{"careful"}}.IsEmpty())
	require.Equal(t, "1 object changed; no node changes", Plan{Changed: []string{"Namespace a"}}.String())
}

// A Reservation that is being deleted stays so, whatever the commit says: it is made again later.
func TestAfter(t *testing.T) {
	dying := reservation("foo", "n1")
	dying.DeletionTimestamp = &metav1.Time{Time: epoch}
	before := list(dying, reservation("bar", "n2"), reservation("baz", "n3"))
	after := After(before, list(reservation("foo", "n5"), reservation("bar", "n6"), reservation("new", "n7")), []string{"baz"})
	require.Len(t, after, 3)
	require.Equal(t, dying, after[0])
	require.Equal(t, []string{"n6"}, after[1].Spec.ReservedNodes)
	require.True(t, after[2].CreationTimestamp.After(epoch))
	require.Equal(t, []string{"n2"}, before[1].Spec.ReservedNodes, "the input stays")
}

// For random changes: doing what the commit says is all that the plan speaks of, and once done there is nothing left.
func TestPlanProperties(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		pick := func() (out []v1alpha1.Reservation) {
			free := r.Perm(8)
			for _, name := range []string{"foo", "bar", "baz", "foo-2"} {
				if r.IntN(4) == 0 {
					continue
				}
				n := r.IntN(3)
				var names []string
				for _, i := range free[:n] {
					names = append(names, fmt.Sprintf("n%d", i+1))
				}
				free = free[n:]
				out = append(out, reservation(name, names...))
			}
			return out
		}
		before, set := pick(), pick()
		var deleted []string
		for _, b := range before {
			if byName(set)[b.Name] == nil {
				deleted = append(deleted, b.Name)
			}
		}
		all, index := settled(8, before...)
		p := Make(Input{Before: before, After: After(before, set, deleted), Nodes: all, Index: index})

		had, wants := map[string]string{}, map[string]string{}
		for node, grant := range index.Grants {
			had[node] = grant.Reservation
		}
		for _, s := range set {
			for _, node := range s.Spec.ReservedNodes {
				wants[node] = s.Name
			}
		}
		got := map[string]string{}
		for node, holder := range had {
			got[node] = holder
		}
		for _, l := range p.Locked {
			require.NotContains(t, got, l.Node, "seed %d", seed)
			got[l.Node] = l.Reservation
		}
		for _, x := range p.Released {
			require.Equal(t, x.Reservation, got[x.Node], "seed %d", seed)
			delete(got, x.Node)
		}
		for _, h := range p.HandedOver {
			require.Equal(t, h.From, got[h.Node], "seed %d", seed)
			got[h.Node] = h.To
		}
		require.Equal(t, wants, got, "seed %d", seed)

		all, index = settled(8, set...)
		require.True(t, Make(Input{Before: set, After: After(set, set, nil), Nodes: all, Index: index}).IsEmpty(), "seed %d", seed)
	}
}
