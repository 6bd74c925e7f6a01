package allocate

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// listener notes what a View's watchers are told, sorted.
type listener struct {
	mu                  sync.Mutex
	nodes, reservations []string
}

func (l *listener) listen(v *View) {
	note := func(to *[]string) func(string) {
		return func(name string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			*to = append(*to, name)
			slices.Sort(*to)
		}
	}
	v.Watch(note(&l.nodes), nil)
	v.Watch(nil, note(&l.reservations))
}

func (l *listener) take() (nodes, reservations []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	nodes, reservations = l.nodes, l.reservations
	l.nodes, l.reservations = nil, nil
	return nodes, reservations
}

func decided(version int64, g grants, p pending, generations map[string]int64) Decision {
	return Decision{Index: Index{Version: version, Grants: g}, Pending: p, Generations: generations}
}

func TestViewTellsWhatChanged(t *testing.T) {
	first := decided(1, grants{"n1": holds("foo"), "n2": holds("foo"), "n3": holds("bar")}, nil, map[string]int64{"foo": 1, "bar": 1})
	cases := map[string]struct {
		next             Decision
		unenforced       bool
		wantNodes        []string
		wantReservations []string
	}{
		"the same again":              {next: first},
		"another version of the same": {next: decided(2, first.Index.Grants, nil, first.Generations)},
		"a node more": {
			next:      decided(2, grants{"n1": holds("foo"), "n2": holds("foo"), "n3": holds("bar"), "n4": holds("bar")}, nil, first.Generations),
			wantNodes: []string{"n4"}, wantReservations: []string{"bar"},
		},
		"a node less": {
			next:      decided(2, grants{"n1": holds("foo"), "n3": holds("bar")}, nil, first.Generations),
			wantNodes: []string{"n2"}, wantReservations: []string{"foo"},
		},
		"another phase": {
			next:      decided(2, grants{"n1": holds("foo"), "n2": releases("foo"), "n3": holds("bar")}, nil, first.Generations),
			wantNodes: []string{"n2"}, wantReservations: []string{"foo"},
		},
		"other namespaces": {
			next:      decided(2, grants{"n1": holds("foo", "x"), "n2": holds("foo"), "n3": holds("bar")}, nil, first.Generations),
			wantNodes: []string{"n1"}, wantReservations: []string{"foo"},
		},
		"another holder": {
			next:      decided(2, grants{"n1": holds("foo"), "n2": holds("bar"), "n3": holds("bar")}, nil, first.Generations),
			wantNodes: []string{"n2"}, wantReservations: []string{"bar", "foo"},
		},
		"a new generation of a spec": {
			next: decided(1, first.Index.Grants, nil, map[string]int64{"foo": 2, "bar": 1}), wantReservations: []string{"foo"},
		},
		"a new Reservation without a node": {
			next: decided(1, first.Index.Grants, nil, map[string]int64{"foo": 1, "bar": 1, "baz": 1}), wantReservations: []string{"baz"},
		},
		"a new reason": {
			next:             decided(1, first.Index.Grants, pending{"bar": {why("n9", v1alpha1.PendingNotFound)}}, first.Generations),
			wantReservations: []string{"bar"},
		},
		"the fence does not stand any more": {
			next: first, unenforced: true, wantNodes: []string{"n1", "n2", "n3"}, wantReservations: []string{"bar", "foo"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, l := &View{}, &listener{}
			l.listen(v)
			v.Publish(first, "")
			nodes, reservations := l.take()
			require.Equal(t, []string{"n1", "n2", "n3"}, nodes, "the first publication tells of everything")
			require.Equal(t, []string{"bar", "foo"}, reservations)
			v.Publish(c.next, doubt(!c.unenforced))
			nodes, reservations = l.take()
			require.Equal(t, c.wantNodes, nodes)
			require.Equal(t, c.wantReservations, reservations)
		})
	}
}

func TestViewAnswers(t *testing.T) {
	v := &View{}
	_, granted, version, enforced := v.Grant("n1")
	require.False(t, granted)
	require.Zero(t, version)
	require.False(t, enforced)
	generation, nodes, why1 := v.Reservation("foo")
	require.Zero(t, generation)
	require.Empty(t, nodes)
	require.Empty(t, why1)

	v.Fail(errors.New("no"))
	require.EqualError(t, v.Failure(), "no")
	reasons := []v1alpha1.PendingNode{why("n9", v1alpha1.PendingNotFound)}
	v.Publish(decided(7, grants{"n2": holds("foo"), "n1": releases("foo"), "n3": frees(Orphan)}, pending{"foo": reasons}, map[string]int64{"foo": 3}), "")
	require.NoError(t, v.Failure(), "a publication ends a failure")
	grant, granted, version, enforced := v.Grant("n1")
	require.Equal(t, releases("foo"), grant)
	require.True(t, granted)
	require.EqualValues(t, 7, version)
	require.True(t, enforced)
	generation, nodes, got := v.Reservation("foo")
	require.EqualValues(t, 3, generation)
	require.Equal(t, []string{"n1", "n2"}, nodes)
	require.Equal(t, nodes, v.Nodes("foo"))
	require.Equal(t, reasons, got)
	enforced, version = v.Enforced()
	require.True(t, enforced)
	require.EqualValues(t, 7, version)
}

func TestViewAgainTellsOfANodeOfWhichNothingChanged(t *testing.T) {
	v, l := &View{}, &listener{}
	l.listen(v)
	v.Again("n1")
	nodes, reservations := l.take()
	require.Equal(t, []string{"n1"}, nodes)
	require.Empty(t, reservations)
}

// What a watcher reads when it is told is what was published, or what was published after.
func TestViewIsReadFromItsWatchersAndManyMore(t *testing.T) {
	v := &View{}
	v.Watch(func(node string) {
		if _, granted, version, _ := v.Grant(node); version == 0 || !granted {
			t.Errorf("told of %s before it could be read", node)
		}
	}, func(name string) { v.Reservation(name) })
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				v.Grant("n1")
				v.Nodes("foo")
				v.Enforced()
				v.Bound()
				v.Watch(nil, nil)
			}
		})
	}
	for i := range int64(500) {
		v.Publish(decided(i+1, grants{"n1": holds("foo", string(rune('a'+i%26)))}, nil, map[string]int64{"foo": i}), doubt(i%2 == 0))
	}
	all.Wait()
}
