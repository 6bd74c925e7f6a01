package allocate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// chance makes snapshots of all sorts, also such as no history leads to.
type chance struct{ *rand.Rand }

func (c chance) one(of ...string) string { return of[c.IntN(len(of))] }

func (c chance) snapshot() Snapshot {
	s := Snapshot{Index: Index{Version: 3, Grants: map[string]Grant{}}, Drained: map[string]bool{}}
	for i := range c.IntN(5) {
		s.Reservations = append(s.Reservations, c.reservation(fmt.Sprintf("r%d", i)))
	}
	for i := range 6 {
		name := fmt.Sprintf("n%d", i)
		if c.IntN(4) > 0 {
			s.Nodes = append(s.Nodes, c.node(name))
		}
		if c.IntN(2) == 0 {
			phase := Phase(c.one(string(Held), string(Releasing), string(Freed)))
			g := Grant{Reservation: c.one("r0", "r1", "r2", "r3", "r9", Orphan), Phase: phase}
			if phase == Held {
				g.Namespaces = []string{c.one("t0", "t1")}
			}
			s.Index.Grants[name] = g
		}
		s.Drained[name] = c.IntN(3) == 0
	}
	if c.IntN(3) == 0 {
		s.MaxBytes = c.IntN(200)
	}
	return s
}

func (c chance) reservation(name string) v1alpha1.Reservation {
	r := res(name, tenant(c.one("t0", "t1", "t2")), age(c.IntN(2)), uid(c.one("", "u", "v")))
	switch c.IntN(8) {
	case 0:
		deleted(&r)
	case 1:
		unreadable(&r)
	}
	if c.IntN(2) == 0 {
		pool(c.one("a", "b"))(&r)
	}
	if c.IntN(4) == 0 {
		expression("pool", metav1.LabelSelectorOpNotIn, c.one("a", "b"))(&r)
	}
	if c.IntN(3) > 0 {
		perm := c.Perm(8)[:c.IntN(5)]
		r.Spec.ReservedNodes = []string{}
		for _, i := range perm {
			r.Spec.ReservedNodes = append(r.Spec.ReservedNodes, fmt.Sprintf("n%d", i))
		}
	}
	if c.IntN(3) == 0 {
		accepting("z", "a")(&r)
	}
	return r
}

func (c chance) node(name string) Node {
	n := in(c.one("a", "b"), free(name))
	n.Deleting = c.IntN(6) == 0
	if c.IntN(2) == 0 {
		n.Holder, n.Tenant, n.Marked = c.one("", "r0", "r1", "r9", "x\ny"), c.one("", "t0", "t1"), true
	}
	return n
}

func clone(s Snapshot) Snapshot {
	out := s
	out.Reservations = nil
	for i := range s.Reservations {
		out.Reservations = append(out.Reservations, *s.Reservations[i].DeepCopy())
	}
	out.Nodes = nil
	for _, n := range s.Nodes {
		n.Labels = maps.Clone(n.Labels)
		out.Nodes = append(out.Nodes, n)
	}
	out.Index.Grants = map[string]Grant{}
	for name, g := range s.Index.Grants {
		g.Namespaces = slices.Clone(g.Namespaces)
		out.Index.Grants[name] = g
	}
	out.Drained = maps.Clone(s.Drained)
	return out
}

func TestDecideProperties(t *testing.T) {
	confirmed := 0
	for seed := range uint64(4000) {
		c := chance{rand.New(rand.NewPCG(seed, 0))}
		s := c.snapshot()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			before := clone(s)
			got := Decide(s)
			require.Equal(t, before, clone(s), "the snapshot is not changed")

			shuffled := clone(s)
			c.Shuffle(len(shuffled.Nodes), func(i, j int) { shuffled.Nodes[i], shuffled.Nodes[j] = shuffled.Nodes[j], shuffled.Nodes[i] })
			c.Shuffle(len(shuffled.Reservations), func(i, j int) {
				shuffled.Reservations[i], shuffled.Reservations[j] = shuffled.Reservations[j], shuffled.Reservations[i]
			})
			for _, r := range shuffled.Reservations {
				c.Shuffle(len(r.Spec.ReservedNodes), func(i, j int) {
					r.Spec.ReservedNodes[i], r.Spec.ReservedNodes[j] = r.Spec.ReservedNodes[j], r.Spec.ReservedNodes[i]
				})
			}
			require.Equal(t, got, Decide(shuffled), "the order does not matter")
			requireSound(t, s, got)
			requireNothingNew(t, s, got)
			confirmed += requireConfirmed(t, s, got)
			parsed, err := Parse(got.Index.Data())
			require.NoError(t, err)
			require.True(t, parsed.Equal(got.Index), "it survives being written down")
		})
	}
	require.Greater(t, confirmed, 1000, "locks that came on as granted")
}

func TestConfirms(t *testing.T) {
	r, other := res("r", tenant("t"), accepting("t")), res("other", tenant("t"))
	gone := res("r", tenant("t"))
	deleted(&gone)
	for name, tc := range map[string]struct {
		before, after Node
		grant         Grant
		holder        *v1alpha1.Reservation
		want          bool
	}{
		"the lock comes on":              {free("n"), locked("n", "r", "t"), holds("r", "t"), &r, true},
		"it comes back, torn off partly": {Node{Name: "n", Marked: true}, locked("n", "r", "t"), holds("r", "t"), &r, false},
		"one of another holder":          {free("n"), locked("n", "other", "t"), holds("r", "t"), &r, false},
		"one of another tenant":          {free("n"), locked("n", "r", "u"), holds("r", "t"), &r, false},
		"one that the index waits for":   {free("n"), locked("n", "r", "t"), Grant{Reservation: "r"}, &r, false},
		"on a node that is given up":     {free("n"), locked("n", "r", "t"), releases("r"), &r, false},
		"in the name of another":         {free("n"), locked("n", "r", "t"), holds("r", "t"), &other, false},
		"of a Reservation that goes":     {free("n"), locked("n", "r", "t"), holds("r", "t"), &gone, false},
		"and another label with it":      {free("n"), in("b", locked("n", "r", "t")), holds("r", "t"), &r, false},
		"and the node is to go":          {free("n"), going(locked("n", "r", "t")), holds("r", "t"), &r, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Confirms(tc.before, tc.after, tc.grant, tc.holder))
		})
	}
}

// requireConfirmed demands that no lock that comes on as it was granted changes the decision. It returns how many did.
func requireConfirmed(t *testing.T, s Snapshot, d Decision) int {
	t.Helper()
	confirmed := 0
	s = clone(s)
	s.Index = d.Index
	next := Decide(s)
	for i, before := range s.Nodes {
		grant := next.Index.Grants[before.Name]
		holder := slices.IndexFunc(s.Reservations, func(r v1alpha1.Reservation) bool { return r.Name == grant.Reservation })
		if holder < 0 {
			continue
		}
		locked := clone(s)
		after := &locked.Nodes[i]
		after.Holder, after.Tenant, after.Marked = grant.Reservation, s.Reservations[holder].Spec.Tenant, true
		after.Labels[v1alpha1.LabelTenant] = after.Tenant
		if Confirms(before, *after, grant, &s.Reservations[holder]) {
			confirmed++
			require.Equal(t, next, Decide(locked), "%s is locked", before.Name)
		}
	}
	return confirmed
}

// requireSound demands what holds of every decision, whatever came before it.
func requireSound(t *testing.T, s Snapshot, d Decision) {
	t.Helper()
	reservations, nodes := map[string]*v1alpha1.Reservation{}, map[string]Node{}
	for i := range s.Reservations {
		reservations[s.Reservations[i].Name] = &s.Reservations[i]
	}
	for _, n := range s.Nodes {
		nodes[n.Name] = n
	}
	for name, g := range d.Index.Grants {
		was, had := s.Index.Grants[name]
		r, n := reservations[g.Reservation], nodes[name]
		if g.Phase != Held {
			require.Empty(t, g.Namespaces, "%s accepts nobody", name)
		}
		if g.Phase == Held {
			require.NotNil(t, r, "%s is held by one that exists", name)
			require.True(t, r.DeletionTimestamp.IsZero(), "%s is held by one that stays", name)
			require.Subset(t, r.AcceptedNamespaces(), g.Namespaces)
			require.True(t, slices.IsSorted(g.Namespaces))
		}
		if had && was.Phase != Freed && was.Reservation != g.Reservation {
			drained := was.Phase == Releasing && s.Drained[name]
			require.True(t, drained || r.Spec.Tenant == n.Tenant || n.Tenant == "" && reservations[was.Reservation] != nil &&
				reservations[was.Reservation].Spec.Tenant == r.Spec.Tenant, "law 2: %s was not drained", name)
		}
		if had && was.Phase == Held && g.Phase == Freed {
			require.Fail(t, "nothing is freed before it is released", name)
		}
		if !had && n.Deleting {
			require.True(t, n.locked(), "%s is going", name)
		}
	}
	for name, was := range s.Index.Grants {
		if _, still := d.Index.Grants[name]; still {
			continue
		}
		n, exists := nodes[name]
		drained := was.Phase == Releasing && s.Drained[name]
		require.True(t, !exists || (was.Phase == Freed || drained) && !n.locked(), "%s is forgotten before it is free", name)
	}
	for name, n := range nodes {
		if n.locked() {
			require.Contains(t, d.Index.Grants, name, "no lock without a grant")
		}
	}
	for name, list := range d.Pending {
		require.NotNil(t, reservations[name])
		require.True(t, slices.IsSortedFunc(list, func(a, b v1alpha1.PendingNode) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		}), "each node once, sorted: %v", list)
		for _, p := range list {
			require.NotEmpty(t, Explain(p))
			if g := d.Index.Grants[p.Name]; g.Reservation == name && g.Phase == Held {
				require.Contains(t, []v1alpha1.PendingReason{v1alpha1.PendingNotFound, v1alpha1.PendingIndexFull}, p.Reason)
			}
		}
	}
}

// Every claim is granted or explained.
func TestDecideExplainsEveryClaim(t *testing.T) {
	for seed := range uint64(2000) {
		c := chance{rand.New(rand.NewPCG(seed, 1))}
		s := c.snapshot()
		d := Decide(s)
		for _, r := range s.Reservations {
			if _, err := selectorOf(&r); err != nil || !r.DeletionTimestamp.IsZero() {
				require.Empty(t, d.Pending[r.Name])
				continue
			}
			for _, node := range r.Spec.ReservedNodes {
				g := d.Index.Grants[node]
				said := slices.ContainsFunc(d.Pending[r.Name], func(p v1alpha1.PendingNode) bool { return p.Name == node })
				require.True(t, said || g.Reservation == r.Name && g.Phase == Held, "seed %d: %s of %s", seed, node, r.Name)
			}
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, size := range []struct{ reservations, nodes int }{{10, 100}, {1000, 10000}} {
		s := Snapshot{Index: Index{Grants: map[string]Grant{}}, MaxBytes: maxBytes}
		for i := range size.nodes {
			s.Nodes = append(s.Nodes, Node{Name: fmt.Sprintf("gpu-%05d", i), Labels: map[string]string{
				"pool": fmt.Sprint(i % size.reservations), "zone": "a", "kubernetes.io/os": "linux",
			}})
		}
		for i := range size.reservations {
			s.Reservations = append(s.Reservations, res(fmt.Sprintf("r%d", i), pool(fmt.Sprint(i))))
		}
		s.Index = Decide(s).Index
		b.Run(fmt.Sprintf("%d reservations, %d nodes", size.reservations, size.nodes), func(b *testing.B) {
			for b.Loop() {
				Decide(s)
			}
		})
		b.Run(fmt.Sprintf("%d nodes written and read", size.nodes), func(b *testing.B) {
			for b.Loop() {
				_, _ = Parse(s.Index.Data())
			}
		})
	}
}
