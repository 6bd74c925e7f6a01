package allocate

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

var epoch = time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)

type change func(*v1alpha1.Reservation)

// res is a Reservation NAME of tenant NAME, which is as old as all others.
func res(name string, changes ...change) v1alpha1.Reservation {
	r := v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1, CreationTimestamp: metav1.NewTime(epoch)},
		Spec:       v1alpha1.ReservationSpec{Tenant: name},
	}
	for _, f := range changes {
		f(&r)
	}
	return r
}

func names(nodes ...string) change {
	return func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = append([]string{}, nodes...) }
}

func pool(value string) change {
	return func(r *v1alpha1.Reservation) {
		r.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": value}}
	}
}

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) change {
	return func(r *v1alpha1.Reservation) {
		if r.Spec.NodeSelector == nil {
			r.Spec.NodeSelector = &metav1.LabelSelector{}
		}
		r.Spec.NodeSelector.MatchExpressions = append(r.Spec.NodeSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values})
	}
}

func unreadable(r *v1alpha1.Reservation) { expression("pool", "Near", "a")(r) }

func tenant(name string) change { return func(r *v1alpha1.Reservation) { r.Spec.Tenant = name } }
func uid(u string) change       { return func(r *v1alpha1.Reservation) { r.UID = types.UID(u) } }
func generation(n int64) change { return func(r *v1alpha1.Reservation) { r.Generation = n } }
func accepting(namespaces ...string) change {
	return func(r *v1alpha1.Reservation) { r.Spec.Namespaces = namespaces }
}

func age(hours int) change {
	return func(r *v1alpha1.Reservation) {
		r.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Duration(hours) * time.Hour))
	}
}

func deleted(r *v1alpha1.Reservation) {
	now := metav1.NewTime(epoch.Add(time.Hour))
	r.DeletionTimestamp = &now
}

// free is a Node of the pool "a".
func free(name string) Node { return Node{Name: name, Labels: map[string]string{"pool": "a"}} }

func locked(name, reservation, tenant string) Node {
	return Node{Name: name, Labels: map[string]string{"pool": "a", v1alpha1.LabelTenant: tenant}, Holder: reservation, Tenant: tenant, Marked: true}
}

func going(n Node) Node { n.Deleting = true; return n }

func in(p string, n Node) Node { n.Labels["pool"] = p; return n }

func holds(reservation string, namespaces ...string) Grant {
	if namespaces == nil {
		namespaces = []string{reservation}
	}
	return Grant{Reservation: reservation, Namespaces: namespaces}
}

func releases(reservation string) Grant { return Grant{Reservation: reservation, Phase: Releasing} }
func frees(reservation string) Grant    { return Grant{Reservation: reservation, Phase: Freed} }

type grants = map[string]Grant
type pending = map[string][]v1alpha1.PendingNode

func why(node string, reason v1alpha1.PendingReason, by ...string) v1alpha1.PendingNode {
	p := v1alpha1.PendingNode{Name: node, Reason: reason}
	if len(by) > 0 {
		p.By = by[0]
	}
	return p
}

func TestDecide(t *testing.T) {
	type reservations = []v1alpha1.Reservation
	type nodes = []Node
	cases := map[string]struct {
		reservations reservations
		nodes        nodes
		index        grants
		drained      []string
		maxBytes     int

		want        grants
		wantPending pending
	}{
		"nothing is nothing": {},

		// Rule 4: free nodes.
		"named nodes are granted, and only those": {
			reservations: reservations{res("foo", names("n1", "n2"))}, nodes: nodes{free("n1"), free("n2"), free("n3")},
			want: grants{"n1": holds("foo"), "n2": holds("foo")},
		},
		"a pool is granted whole": {
			reservations: reservations{res("foo", pool("a"))}, nodes: nodes{free("n1"), free("n2"), in("b", free("n3"))},
			want: grants{"n1": holds("foo"), "n2": holds("foo")},
		},
		"a pool of expressions alone is granted": {
			reservations: reservations{res("foo", expression("pool", metav1.LabelSelectorOpNotIn, "b"))},
			nodes:        nodes{free("n1"), in("b", free("n2"))}, want: grants{"n1": holds("foo")},
		},
		"a pool of several conditions is what meets them all": {
			reservations: reservations{res("foo", expression("pool", metav1.LabelSelectorOpIn, "a", "b"), expression("gpu", metav1.LabelSelectorOpExists))},
			nodes:        nodes{free("n1"), {Name: "n2", Labels: map[string]string{"pool": "b", "gpu": ""}}, {Name: "n3", Labels: map[string]string{"gpu": "x"}}},
			want:         grants{"n2": holds("foo")},
		},
		"an empty selector is every node": {
			reservations: reservations{res("foo", func(r *v1alpha1.Reservation) { r.Spec.NodeSelector = &metav1.LabelSelector{} })},
			nodes:        nodes{free("n1"), {Name: "n2"}}, want: grants{"n1": holds("foo"), "n2": holds("foo")},
		},
		"neither pool nor names is no node": {reservations: reservations{res("foo")}, nodes: nodes{free("n1")}},
		"an empty list of names is no node, even with a pool": {
			reservations: reservations{res("foo", names(), pool("a"))}, nodes: nodes{free("n1")},
		},
		"the fence's probe node is nobody's, though it exist": {
			reservations: reservations{res("foo", names(v1alpha1.ProbeNode)), res("bar", pool("a"))}, nodes: nodes{free(v1alpha1.ProbeNode)},
			index: grants{v1alpha1.ProbeNode: holds("foo")}, wantPending: pending{"foo": {why(v1alpha1.ProbeNode, v1alpha1.PendingNotFound)}},
		},
		"the accepted namespaces are the spec's, sorted": {
			reservations: reservations{res("foo", names("n1"), accepting("z", "a"))}, nodes: nodes{free("n1")},
			want: grants{"n1": holds("foo", "a", "z")},
		},
		"of two claimants the older wins, and the other is told who": {
			reservations: reservations{res("a-young", names("n1"), age(1)), res("z-old", names("n1"), age(2))}, nodes: nodes{free("n1")},
			want: grants{"n1": holds("z-old")}, wantPending: pending{"a-young": {why("n1", v1alpha1.PendingHeldBy, "z-old")}},
		},
		"of two as old the smaller UID wins": {
			reservations: reservations{res("a", names("n1"), uid("2")), res("b", names("n1"), uid("1"))}, nodes: nodes{free("n1")},
			want: grants{"n1": holds("b")}, wantPending: pending{"a": {why("n1", v1alpha1.PendingHeldBy, "b")}},
		},
		"of two without a UID the smaller name wins": {
			reservations: reservations{res("b", names("n1"), uid("")), res("a", names("n1"), uid(""))}, nodes: nodes{free("n1")},
			want: grants{"n1": holds("a")}, wantPending: pending{"b": {why("n1", v1alpha1.PendingHeldBy, "a")}},
		},
		"each node is decided by itself": {
			reservations: reservations{res("old", names("n1"), age(2)), res("young", pool("a"))}, nodes: nodes{free("n1"), free("n2")},
			want: grants{"n1": holds("old"), "n2": holds("young")}, wantPending: pending{"young": {why("n1", v1alpha1.PendingHeldBy, "old")}},
		},
		"a node that is being deleted is not granted": {
			reservations: reservations{res("foo", names("n1"))}, nodes: nodes{going(free("n1"))},
			wantPending: pending{"foo": {why("n1", v1alpha1.PendingNodeDeleting)}},
		},
		"a name without a node is pending": {
			reservations: reservations{res("foo", names("n1", "n2"))}, nodes: nodes{free("n2")},
			want: grants{"n2": holds("foo")}, wantPending: pending{"foo": {why("n1", v1alpha1.PendingNotFound)}},
		},
		"a name that the pool does not hold is pending": {
			reservations: reservations{res("foo", names("n1", "n2"), pool("a"))}, nodes: nodes{free("n1"), in("b", free("n2"))},
			want: grants{"n1": holds("foo")}, wantPending: pending{"foo": {why("n2", v1alpha1.PendingSelectorMismatch)}},
		},
		"reasons come sorted by node": {
			reservations: reservations{res("foo", names("n3", "n2", "n1"), pool("a")), res("bar", names("n2"), age(1))},
			nodes:        nodes{in("b", free("n1")), free("n2")}, want: grants{"n2": holds("bar")},
			wantPending: pending{"foo": {why("n1", v1alpha1.PendingSelectorMismatch), why("n2", v1alpha1.PendingHeldBy, "bar"), why("n3", v1alpha1.PendingNotFound)}},
		},

		// Rule 1: what is held.
		"law 10: the holder keeps its node, however old the other": {
			reservations: reservations{res("young", names("n1")), res("old", names("n1"), age(9))}, nodes: nodes{free("n1")},
			index: grants{"n1": holds("young")}, want: grants{"n1": holds("young")},
			wantPending: pending{"old": {why("n1", v1alpha1.PendingHeldBy, "young")}},
		},
		"changed namespaces change the index": {
			reservations: reservations{res("foo", names("n1"), accepting("b", "a"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": holds("foo")}, want: grants{"n1": holds("foo", "a", "b")},
		},
		"a holder keeps a node that is being deleted": {
			reservations: reservations{res("foo", names("n1"))}, nodes: nodes{going(locked("n1", "foo", "foo"))},
			index: grants{"n1": holds("foo")}, want: grants{"n1": holds("foo")},
		},
		"a pool grows when a node comes": {
			reservations: reservations{res("foo", pool("a"))}, nodes: nodes{locked("n1", "foo", "foo"), free("n2")},
			index: grants{"n1": holds("foo")}, want: grants{"n1": holds("foo"), "n2": holds("foo")},
		},

		// Rule 2: what is given up.
		"a node that is no longer named is released, and accepts nobody": {
			reservations: reservations{res("foo", names("n1"))}, nodes: nodes{locked("n1", "foo", "foo"), locked("n2", "foo", "foo")},
			index: grants{"n1": holds("foo"), "n2": holds("foo")}, want: grants{"n1": holds("foo"), "n2": releases("foo")},
		},
		"a node whose labels leave the pool is released": {
			reservations: reservations{res("foo", pool("a"))}, nodes: nodes{in("b", locked("n1", "foo", "foo"))},
			index: grants{"n1": holds("foo")}, want: grants{"n1": releases("foo")},
		},
		"a named node whose labels leave the pool is released and reported": {
			reservations: reservations{res("foo", names("n1"), pool("a"))}, nodes: nodes{in("b", locked("n1", "foo", "foo"))},
			index: grants{"n1": holds("foo")}, want: grants{"n1": releases("foo")},
			wantPending: pending{"foo": {why("n1", v1alpha1.PendingSelectorMismatch)}},
		},
		"law 9: a Reservation that is being deleted releases what it has, and claims nothing": {
			reservations: reservations{res("foo", names("n1", "n2"), deleted)}, nodes: nodes{locked("n1", "foo", "foo"), free("n2")},
			index: grants{"n1": holds("foo")}, want: grants{"n1": releases("foo")},
		},
		"law 9: one that is gone without a finalizer releases too": {
			nodes: nodes{locked("n1", "foo", "foo")}, index: grants{"n1": holds("foo")}, want: grants{"n1": releases("foo")},
		},
		"a releasing node that is not drained stays so": {
			nodes: nodes{locked("n1", "foo", "foo")}, index: grants{"n1": releases("foo")}, want: grants{"n1": releases("foo")},
		},
		"a releasing node is not given to another tenant, which is told whose it is": {
			reservations: reservations{res("foo", names()), res("bar", names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": releases("foo")}, want: grants{"n1": releases("foo")},
			wantPending: pending{"bar": {why("n1", v1alpha1.PendingReleasingFrom, "foo")}},
		},
		"whose it is says the label where the Reservation is gone": {
			reservations: reservations{res("bar", names("n1"))}, nodes: nodes{locked("n1", "foo", "tenant-foo")},
			index: grants{"n1": releases("foo")}, want: grants{"n1": releases("foo")},
			wantPending: pending{"bar": {why("n1", v1alpha1.PendingReleasingFrom, "tenant-foo")}},
		},
		"a node that is claimed again before it is drained goes straight back": {
			reservations: reservations{res("foo", names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": releases("foo")}, want: grants{"n1": holds("foo")},
		},
		"also if it is drained by now": {
			reservations: reservations{res("foo", names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": releases("foo")}, drained: []string{"n1"}, want: grants{"n1": holds("foo")},
		},
		"and before others that waited for it": {
			reservations: reservations{res("foo", names("n1")), res("bar", names("n1"), age(9))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": releases("foo")}, drained: []string{"n1"}, want: grants{"n1": holds("foo")},
			wantPending: pending{"bar": {why("n1", v1alpha1.PendingHeldBy, "foo")}},
		},
		"another Reservation of the same tenant takes over at once": {
			reservations: reservations{res("foo-2", tenant("foo"), names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": holds("foo")}, want: grants{"n1": holds("foo-2", "foo")},
		},
		"but not before an older claimant of another tenant": {
			reservations: reservations{res("foo-2", tenant("foo"), names("n1")), res("bar", names("n1"), age(9))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": holds("foo")}, want: grants{"n1": releases("foo")}, wantPending: pending{
				"bar": {why("n1", v1alpha1.PendingReleasingFrom, "foo")}, "foo-2": {why("n1", v1alpha1.PendingReleasingFrom, "foo")},
			},
		},
		"nor while the node bears yet another tenant's lock": {
			reservations: reservations{res("bar", names()), res("bar-2", tenant("bar"), names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": holds("bar")}, want: grants{"n1": releases("bar")},
			wantPending: pending{"bar-2": {why("n1", v1alpha1.PendingReleasingFrom, "foo")}},
		},
		"nor while another tenant gives the node up that the lock does not speak of yet": {
			reservations: reservations{res("bar", names()), res("foo-2", tenant("foo"), names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": holds("bar")}, want: grants{"n1": releases("bar")},
			wantPending: pending{"foo-2": {why("n1", v1alpha1.PendingReleasingFrom, "foo")}},
		},
		"nor a node that is being deleted": {
			reservations: reservations{res("foo-2", tenant("foo"), names("n1"))}, nodes: nodes{going(locked("n1", "foo", "foo"))},
			index: grants{"n1": holds("foo")}, want: grants{"n1": releases("foo")},
			wantPending: pending{"foo-2": {why("n1", v1alpha1.PendingReleasingFrom, "foo")}},
		},

		// Rule 3: what is drained.
		"a drained node without a claimant is freed": {
			nodes: nodes{locked("n1", "foo", "foo")}, index: grants{"n1": releases("foo")}, drained: []string{"n1"}, want: grants{"n1": frees("foo")},
		},
		"a drained node that bears no lock is forgotten at once": {
			nodes: nodes{free("n1")}, index: grants{"n1": releases("foo")}, drained: []string{"n1"},
		},
		"a drained node goes to the first claimant at once": {
			reservations: reservations{res("old", names("n1"), age(2)), res("young", names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": releases("foo")}, drained: []string{"n1"}, want: grants{"n1": holds("old")},
			wantPending: pending{"young": {why("n1", v1alpha1.PendingHeldBy, "old")}},
		},
		"a node that is reported drained and is held is not freed": {
			reservations: reservations{res("foo", names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": holds("foo")}, drained: []string{"n1"}, want: grants{"n1": holds("foo")},
		},
		"a held node that is given up is not freed by an old report": {
			nodes: nodes{locked("n1", "foo", "foo")}, index: grants{"n1": holds("foo")}, drained: []string{"n1"}, want: grants{"n1": releases("foo")},
		},
		"freed is final while the node bears the lock: not back to its holder": {
			reservations: reservations{res("foo", names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": frees("foo")}, want: grants{"n1": frees("foo")},
			wantPending: pending{"foo": {why("n1", v1alpha1.PendingReleasingFrom, "foo")}},
		},
		"nor to a claimant": {
			reservations: reservations{res("bar", names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": frees("foo")}, want: grants{"n1": frees("foo")},
			wantPending: pending{"bar": {why("n1", v1alpha1.PendingReleasingFrom, "foo")}},
		},
		"nor while anything of the lock is left": {
			nodes: nodes{{Name: "n1", Marked: true}}, index: grants{"n1": frees("foo")}, want: grants{"n1": frees("foo")},
		},
		"an unlocked node is forgotten": {nodes: nodes{free("n1")}, index: grants{"n1": frees("foo")}},
		"or goes to its first claimant": {
			reservations: reservations{res("foo", names("n1"))}, nodes: nodes{free("n1")}, index: grants{"n1": frees("foo")}, want: grants{"n1": holds("foo")},
		},
		"but not if it is being deleted": {
			reservations: reservations{res("foo", names("n1"))}, nodes: nodes{going(free("n1"))}, index: grants{"n1": frees("foo")},
			wantPending: pending{"foo": {why("n1", v1alpha1.PendingNodeDeleting)}},
		},

		// Rule 7: Nodes that are away.
		"an entry stays while its Node is away": {
			reservations: reservations{res("foo", names("n1"))}, index: grants{"n1": holds("foo")}, want: grants{"n1": holds("foo")},
			wantPending: pending{"foo": {why("n1", v1alpha1.PendingNotFound)}},
		},
		"but nobody else's comes of it": {
			reservations: reservations{res("foo", names("n1"), age(1)), res("bar", names("n1"))}, index: grants{"n1": holds("foo")}, want: grants{"n1": holds("foo")},
			wantPending: pending{"foo": {why("n1", v1alpha1.PendingNotFound)}, "bar": {why("n1", v1alpha1.PendingNotFound)}},
		},
		"it goes when it is no longer claimed": {
			reservations: reservations{res("foo", names())}, index: grants{"n1": holds("foo")},
		},
		"a Node of a pool takes its entry with it": {
			reservations: reservations{res("foo", pool("a"))}, index: grants{"n1": holds("foo")},
		},
		"so does one that is being released, and one that is freed": {index: grants{"n1": releases("foo"), "n2": frees("foo")}},
		"one that is freed and away is not found, whoever claims it": {
			reservations: reservations{res("foo", names("n1"))}, index: grants{"n1": frees("foo")},
			wantPending: pending{"foo": {why("n1", v1alpha1.PendingNotFound)}},
		},
		"a Node that comes back without a lock is held again": {
			reservations: reservations{res("foo", names("n1"))}, nodes: nodes{free("n1")}, index: grants{"n1": holds("foo")}, want: grants{"n1": holds("foo")},
		},

		// Rule 5: locks without a grant.
		"the index was lost: locks say who holds what": {
			reservations: reservations{res("foo", names("n1")), res("old", names("n1"), age(9))},
			nodes:        nodes{locked("n1", "foo", "foo")}, want: grants{"n1": holds("foo")},
			wantPending: pending{"old": {why("n1", v1alpha1.PendingHeldBy, "foo")}},
		},
		"the index was lost: what is not claimed any more is released": {
			reservations: reservations{res("foo", names())}, nodes: nodes{locked("n1", "foo", "foo")}, want: grants{"n1": releases("foo")},
		},
		"the index was lost: what was freed is drained again": {
			nodes: nodes{locked("n1", "foo", "foo")}, want: grants{"n1": releases("foo")},
		},
		"a label put on by hand is nobody's and is released": {
			nodes: nodes{{Name: "n1", Tenant: "x"}}, want: grants{"n1": releases(Orphan)},
		},
		"what is left of a lock is released": {nodes: nodes{{Name: "n1", Marked: true}}, want: grants{"n1": releases(Orphan)}},
		"a label put on by hand becomes the lock of its tenant's claimant": {
			reservations: reservations{res("foo", names("n1"))}, nodes: nodes{{Name: "n1", Tenant: "foo"}}, want: grants{"n1": holds("foo")},
		},
		"a label put on by hand keeps another tenant's claimant waiting": {
			reservations: reservations{res("bar", names("n1"))}, nodes: nodes{{Name: "n1", Tenant: "foo"}}, want: grants{"n1": releases(Orphan)},
			wantPending: pending{"bar": {why("n1", v1alpha1.PendingReleasingFrom, "foo")}},
		},
		"a holder that no Reservation can be called is nobody": {
			nodes: nodes{{Name: "n1", Holder: "x\nn2 evil", Tenant: "foo"}, {Name: "n2", Holder: "a b", Tenant: "foo"}, {Name: "n3", Holder: Orphan, Tenant: "foo"}},
			want:  grants{"n1": releases(Orphan), "n2": releases(Orphan), "n3": releases(Orphan)},
		},

		// Rule 6: selectors that cannot be read.
		"an unreadable selector keeps what it holds and claims nothing": {
			reservations: reservations{res("foo", names("n2"), unreadable)}, nodes: nodes{locked("n1", "foo", "foo"), free("n2")},
			index: grants{"n1": holds("foo")}, want: grants{"n1": holds("foo")},
		},
		"an unreadable selector keeps it from others": {
			reservations: reservations{res("foo", unreadable), res("bar", names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": holds("foo")}, want: grants{"n1": holds("foo")}, wantPending: pending{"bar": {why("n1", v1alpha1.PendingHeldBy, "foo")}},
		},
		"an unreadable selector does not stop a release": {
			reservations: reservations{res("foo", unreadable)}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": releases("foo")}, drained: []string{"n1"}, want: grants{"n1": frees("foo")},
		},
		"an unreadable selector does not stop a deletion": {
			reservations: reservations{res("foo", unreadable, deleted)}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": holds("foo")}, want: grants{"n1": releases("foo")},
		},

		// Rule 8: a Reservation made anew under its old name.
		"a new tenant under an old name gets nobody in before the old lock is off": {
			reservations: reservations{res("foo", tenant("new"), names("n1"))}, nodes: nodes{locked("n1", "foo", "old")},
			index: grants{"n1": holds("foo", "old")}, want: grants{"n1": {Reservation: "foo"}},
		},
		"and gets its own in then": {
			reservations: reservations{res("foo", tenant("new"), names("n1"))}, nodes: nodes{locked("n1", "foo", "new")},
			index: grants{"n1": {Reservation: "foo"}}, want: grants{"n1": holds("foo", "new")},
		},
		"a handover opens the node at once: it is drained": {
			reservations: reservations{res("bar", names("n1"))}, nodes: nodes{locked("n1", "foo", "foo")},
			index: grants{"n1": holds("bar")}, want: grants{"n1": holds("bar")},
		},

		// Rule 9: room.
		"a full index takes back new grants, the last names first": {
			reservations: reservations{res("foo", names("n1", "n2", "n3"))}, nodes: nodes{free("n1"), free("n2"), free("n3")}, maxBytes: size(grants{"n1": holds("foo"), "n2": holds("foo")}),
			want: grants{"n1": holds("foo"), "n2": holds("foo")}, wantPending: pending{"foo": {why("n3", v1alpha1.PendingIndexFull)}},
		},
		"a byte less takes back one more": {
			reservations: reservations{res("foo", names("n1", "n2", "n3"))}, nodes: nodes{free("n1"), free("n2"), free("n3")}, maxBytes: size(grants{"n1": holds("foo"), "n2": holds("foo")}) - 1,
			want: grants{"n1": holds("foo")}, wantPending: pending{"foo": {why("n2", v1alpha1.PendingIndexFull), why("n3", v1alpha1.PendingIndexFull)}},
		},
		"a full index takes back nothing that is held, releasing or locked": {
			reservations: reservations{res("foo", names("n0", "n1", "n3"))}, nodes: nodes{free("n0"), locked("n1", "foo", "foo"), locked("n2", "foo", "foo"), locked("n3", "foo", "foo")}, maxBytes: 1,
			index: grants{"n1": holds("foo"), "n2": holds("foo")}, want: grants{"n1": holds("foo"), "n2": releases("foo"), "n3": {Reservation: "foo"}},
			wantPending: pending{"foo": {why("n0", v1alpha1.PendingIndexFull), why("n3", v1alpha1.PendingIndexFull)}},
		},
		"everybody who claims what the index has no room for is told so": {
			reservations: reservations{res("foo", names("n1"), age(1)), res("bar", names("n1"))}, nodes: nodes{free("n1")}, maxBytes: 1,
			wantPending: pending{"foo": {why("n1", v1alpha1.PendingIndexFull)}, "bar": {why("n1", v1alpha1.PendingIndexFull)}},
		},
		"a full index takes back namespaces that are new, and drops those that are no longer accepted": {
			reservations: reservations{res("foo", names("n1", "n2"), accepting("b", "new"))}, nodes: nodes{locked("n1", "foo", "foo"), locked("n2", "foo", "foo")},
			index: grants{"n1": holds("foo", "a", "b"), "n2": holds("foo", "a", "b")}, maxBytes: size(grants{"n1": holds("foo", "b", "new"), "n2": holds("foo", "b")}),
			want: grants{"n1": holds("foo", "b", "new"), "n2": holds("foo", "b")}, wantPending: pending{"foo": {why("n2", v1alpha1.PendingIndexFull)}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{Reservations: c.reservations, Nodes: c.nodes, Index: Index{Version: 7, Grants: c.index}, MaxBytes: c.maxBytes, Drained: map[string]bool{}}
			for _, node := range c.drained {
				s.Drained[node] = true
			}
			got := Decide(s)
			requireSame(t, c.want, got.Index.Grants)
			requireSame(t, c.wantPending, got.Pending)
			require.EqualValues(t, 7, got.Index.Version)
			requireNothingNew(t, s, got)
		})
	}
}

func TestDecideTellsWhatItRead(t *testing.T) {
	got := Decide(Snapshot{
		Reservations: []v1alpha1.Reservation{res("foo", generation(3)), res("bar", generation(5), deleted)}, Bound: []string{"a", "b"},
	})
	require.Equal(t, map[string]int64{"foo": 3, "bar": 5}, got.Generations)
	require.Equal(t, []string{"a", "b"}, got.Index.Bound)
}

func size(g grants) (n int) {
	for _, value := range (Index{Version: 7, Grants: g}).Data() {
		n += len(value)
	}
	return n
}

func requireSame(t *testing.T, want, got any) {
	t.Helper()
	require.Empty(t, cmp.Diff(want, got, cmpopts.EquateEmpty()))
}

// requireNothingNew demands that deciding again from an answer, without any new report, changes nothing.
func requireNothingNew(t *testing.T, s Snapshot, d Decision) {
	t.Helper()
	s.Index, s.Drained = d.Index, nil
	again := Decide(s)
	requireSame(t, d.Index.Grants, again.Index.Grants)
	requireSame(t, d.Pending, again.Pending)
}

func ExampleDecide() {
	decision := Decide(Snapshot{
		Reservations: []v1alpha1.Reservation{res("foo", names("gpu-01", "gpu-02"))},
		Nodes:        []Node{{Name: "gpu-01"}},
	})
	fmt.Println(decision.Index.Grants["gpu-01"].Reservation)
	fmt.Println(Explain(decision.Pending["foo"][0]))
	// Output:
	// foo
	// node gpu-02 does not exist; it is locked when it appears, or correct spec.reservedNodes
}
