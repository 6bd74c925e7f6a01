package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// Plan is what a commit would do. Its lists are sorted, and nil when empty.
type Plan struct {
	// Created, Changed and Deleted name objects, such as "Reservation foo".
	Created, Changed, Deleted []string
	// Locked are nodes that nobody holds now and that would be locked.
	Locked []Lock
	// Released are nodes that would go back to the general pool.
	Released []Release
	// HandedOver are nodes that would go from one Reservation to another, without being free in between.
	HandedOver []Handover
	// Pending are nodes that are named anew and would not be locked, with the reason.
	Pending []Pending
	// Warnings are what is worth a look, in the order given.
	Warnings []string
}

// Lock is a node that would be locked.
type Lock struct {
	Node, Reservation, Tenant string
}

// Release is a node that would be released.
type Release struct {
	// Node, and the Reservation and tenant that give it up.
	Node, Reservation, Tenant string
	// Pods is how many of the tenant's pods run there; -1 if that was not looked at.
	Pods int
	// Evicts says that they would be evicted instead of being waited for.
	Evicts bool
}

// Handover is a node that would change its Reservation.
type Handover struct {
	Node string
	// From gives it up, To gets it.
	From, To string
	// FromTenant and ToTenant are theirs. Between two tenants the node is drained first; within one it is not.
	FromTenant, ToTenant string
	// Pods is as in Release.
	Pods int
}

// Pending is a node that a Reservation would claim and not hold.
type Pending struct {
	Node, Reservation string
	Reason            v1alpha1.PendingReason
	// By is what the reason names: the holder or its tenant.
	By string
}

// Input is what a plan is made from.
type Input struct {
	// Before are all Reservations that exist; After are all that would, see After.
	Before, After []v1alpha1.Reservation
	// Nodes are all that exist.
	Nodes []allocate.Node
	// Index is what is granted now.
	Index allocate.Index
	// Pods is how many pods of its tenant run on a node; a node that is not in it was not looked at.
	Pods map[string]int
	// Created, Changed and Deleted name the objects of the commit.
	Created, Changed, Deleted []string
	// Warnings are taken over.
	Warnings []string
}

// Make compares what the allocation decides before and after. Nodes whose fate the commit does not touch are not in
// the plan, also if they are on their way already. The order of the input's lists does not matter, and nothing of it
// is changed.
func Make(in Input) Plan {
	m := maker{
		in:     in,
		before: allocate.Decide(allocate.Snapshot{Reservations: in.Before, Nodes: in.Nodes, Index: in.Index}),
		after:  allocate.Decide(allocate.Snapshot{Reservations: in.After, Nodes: in.Nodes, Index: in.Index}),
		old:    byName(in.Before),
		new:    byName(in.After),
		out: Plan{
			Created: slices.Sorted(slices.Values(in.Created)), Changed: slices.Sorted(slices.Values(in.Changed)),
			Deleted: slices.Sorted(slices.Values(in.Deleted)), Warnings: in.Warnings,
		},
	}
	m.gatherHeirs()
	names := map[string]allocate.Grant{}
	maps.Copy(names, m.before.Index.Grants)
	maps.Copy(names, m.after.Index.Grants)
	for _, node := range slices.Sorted(maps.Keys(names)) {
		m.node(node)
	}
	m.pending()
	return m.out
}

// After returns the Reservations that would exist if those of a set were written and some deleted, given those that
// exist. One that is new is younger than all that exist. The inputs are not changed.
func After(before, set []v1alpha1.Reservation, deleted []string) []v1alpha1.Reservation {
	out := make([]v1alpha1.Reservation, 0, len(before)+len(set))
	written := byName(set)
	exists, gone := map[string]bool{}, map[string]bool{}
	for _, name := range deleted {
		gone[name] = true
	}
	for _, r := range before {
		exists[r.Name] = true
		w, inSet := written[r.Name]
		switch {
		case inSet && r.DeletionTimestamp.IsZero():
			r.Spec = w.Spec
		case !inSet && gone[r.Name]:
			continue
		}
		out = append(out, r)
	}
	for _, r := range set {
		if !exists[r.Name] {
			r.CreationTimestamp = metav1.NewTime(unborn)
			r.UID = types.UID("unborn-" + r.Name)
			out = append(out, r)
		}
	}
	return out
}

// unborn is later than any creation time.
var unborn = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

type maker struct {
	in            Input
	out           Plan
	before, after allocate.Decision
	old, new      map[string]*v1alpha1.Reservation
	// heirs holds, for each node that its holder would release, the Reservation that is first in waiting for it.
	heirs map[string]*v1alpha1.Reservation
}

func (m *maker) gatherHeirs() {
	m.heirs = map[string]*v1alpha1.Reservation{}
	for name, pending := range m.after.Pending {
		for _, p := range pending {
			if first := m.heirs[p.Name]; p.Reason == v1alpha1.PendingReleasingFrom && (first == nil || v1alpha1.CompareClaims(m.new[name], first) < 0) {
				m.heirs[p.Name] = m.new[name]
			}
		}
	}
}

// node says what becomes of one node.
func (m *maker) node(name string) {
	was, had := m.before.Index.Grants[name]
	will, has := m.after.Index.Grants[name]
	hadIt, hasIt := had && was.Phase == allocate.Held, has && will.Phase == allocate.Held
	switch heir := m.heirs[name]; {
	case !hadIt && !hasIt, hadIt && hasIt && was.Reservation == will.Reservation:
	case hadIt && hasIt:
		m.handover(name, was.Reservation, will.Reservation)
	case hasIt:
		m.out.Locked = append(m.out.Locked, Lock{Node: name, Reservation: will.Reservation, Tenant: tenantOf(m.new[will.Reservation])})
	case heir != nil:
		m.handover(name, was.Reservation, heir.Name)
	default:
		m.out.Released = append(m.out.Released, m.release(name, was.Reservation))
	}
}

func (m *maker) handover(node, from, to string) {
	m.out.HandedOver = append(m.out.HandedOver, Handover{
		Node: node, From: from, To: to, Pods: m.pods(node),
		FromTenant: tenantOf(m.old[from]), ToTenant: tenantOf(m.new[to]),
	})
}

func (m *maker) release(node, from string) Release {
	r := Release{Node: node, Reservation: from, Tenant: tenantOf(m.old[from]), Pods: m.pods(node)}
	// What the Reservation says after the commit counts; if it is deleted, what it said before.
	if giver := cmp.Or(m.new[from], m.old[from]); giver != nil {
		r.Evicts = giver.Spec.EvictOnRelease
	}
	return r
}

func (m *maker) pods(node string) int {
	if pods, looked := m.in.Pods[node]; looked {
		return pods
	}
	return -1
}

// pending lists what the commit claims in vain: claims that were not pending before. Those of handovers are said there.
func (m *maker) pending() {
	for reservation, claims := range m.after.Pending {
		before := map[v1alpha1.PendingNode]bool{}
		for _, p := range m.before.Pending[reservation] {
			before[p] = true
		}
		for _, p := range claims {
			heir := p.Reason == v1alpha1.PendingReleasingFrom && m.heirs[p.Name].Name == reservation
			if !before[p] && !heir {
				m.out.Pending = append(m.out.Pending, Pending{Node: p.Name, Reservation: reservation, Reason: p.Reason, By: p.By})
			}
		}
	}
	slices.SortFunc(m.out.Pending, func(a, b Pending) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Reservation, b.Reservation))
	})
}

func byName(reservations []v1alpha1.Reservation) map[string]*v1alpha1.Reservation {
	out := make(map[string]*v1alpha1.Reservation, len(reservations))
	for i := range reservations {
		out[reservations[i].Name] = &reservations[i]
	}
	return out
}

func tenantOf(r *v1alpha1.Reservation) string {
	if r == nil {
		return ""
	}
	return r.Spec.Tenant
}
