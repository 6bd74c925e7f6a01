package apply

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func e(kind, name string) Entry { return Entry{Group: "g", Version: "v1", Kind: kind, Name: name} }

func TestInventoryAlgebra(t *testing.T) {
	a1, a2, b1 := e("A", "1"), e("A", "2"), e("B", "1")
	newer := a1
	newer.Version = "v2"
	for name, tc := range map[string]struct {
		a, b                      []Entry
		wantUnion, wantDifference []Entry
	}{
		"nothing":                        {},
		"one side":                       {a: []Entry{b1, a1}, wantUnion: []Entry{a1, b1}, wantDifference: []Entry{a1, b1}},
		"the other side":                 {b: []Entry{b1, a1}, wantUnion: []Entry{a1, b1}},
		"both":                           {a: []Entry{a2, a1}, b: []Entry{b1, a1}, wantUnion: []Entry{a1, a2, b1}, wantDifference: []Entry{a2}},
		"once each":                      {a: []Entry{a1, a1}, wantUnion: []Entry{a1}, wantDifference: []Entry{a1}},
		"another version is one object":  {a: []Entry{a1}, b: []Entry{newer}, wantUnion: []Entry{newer}},
		"another namespace is not":       {a: []Entry{a1}, b: []Entry{{Group: "g", Version: "v1", Kind: "A", Name: "1", Namespace: "n"}}, wantUnion: []Entry{a1, {Group: "g", Version: "v1", Kind: "A", Name: "1", Namespace: "n"}}, wantDifference: []Entry{a1}},
		"the same name of another group": {a: []Entry{a1}, b: []Entry{{Version: "v1", Kind: "A", Name: "1"}}, wantUnion: []Entry{{Version: "v1", Kind: "A", Name: "1"}, a1}, wantDifference: []Entry{a1}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.wantUnion, Union(tc.a, tc.b))
			require.Equal(t, tc.wantDifference, Difference(tc.a, tc.b))
		})
	}
}

func TestInventoryProperties(t *testing.T) {
	random := func(r *rand.Rand) []Entry {
		var out []Entry
		for range r.IntN(20) {
			out = append(out, e("K", fmt.Sprint(r.IntN(12))))
		}
		return out
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		a, b := random(r), random(r)
		keepA, keepB := slices.Clone(a), slices.Clone(b)
		union := Union(a, b)
		require.Equal(t, union, Union(b, a), "seed %d: the order of the sides does not matter", seed)
		require.Equal(t, union, Union(union, b), "seed %d: again changes nothing", seed)
		require.True(t, slices.IsSortedFunc(union, Compare), "seed %d", seed)
		require.Equal(t, Union(a, nil), Union(Difference(a, b), Difference(a, Difference(a, b))), "seed %d: what is taken off and what stays", seed)
		require.Empty(t, Difference(a, union), "seed %d", seed)
		require.Equal(t, keepA, a, "seed %d: the input stays", seed)
		require.Equal(t, keepB, b, "seed %d: the input stays", seed)
	}
}

func TestOrders(t *testing.T) {
	kinds := []string{"ReservationBinding", "Reservation", "LimitRange", "Namespace", "ResourceQuota"}
	slices.SortStableFunc(kinds, func(a, b string) int { return order(a) - order(b) })
	require.Equal(t, []string{"Namespace", "LimitRange", "ResourceQuota", "Reservation", "ReservationBinding"}, kinds)
	slices.SortStableFunc(kinds, func(a, b string) int { return deletionOrder(a) - deletionOrder(b) })
	require.Equal(t, []string{"ReservationBinding", "Reservation", "LimitRange", "ResourceQuota", "Namespace"}, kinds)
}
