package allocate

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Node is what allocation needs to know of a Node.
type Node struct {
	// Name is the node's name.
	Name string
	// Labels are the node's labels.
	Labels map[string]string
	// Holder is the value of the node's reservation annotation: whose lock it bears; empty for none.
	Holder string
	// Tenant is the value of the node's label reserved.tenant; empty for none.
	Tenant string
	// Marked says that the node bears any part of a lock, such as a cordon of this operator's, if only what is left
	// of one that somebody took off by hand.
	Marked bool
	// Deleting is true once the Node object is being deleted, or an autoscaler has said that it will be.
	Deleting bool
}

// locked reports whether the node bears any part of a lock.
func (n Node) locked() bool { return n.Holder != "" || n.Tenant != "" || n.Marked }

// Snapshot is everything that a decision rests on, gathered at one moment.
type Snapshot struct {
	// Reservations are all that exist, in any order. One that is being deleted claims nothing.
	Reservations []v1alpha1.Reservation
	// Nodes are all that exist, in any order.
	Nodes []Node
	// Index is what is granted now.
	Index Index
	// Bound are the namespaces with accepted bindings, sorted. They are only passed on.
	Bound []string
	// Drained names the releasing nodes on which, after their release was enforced, no pod of the tenant was left.
	Drained map[string]bool
	// MaxBytes is the most bytes that the index may hold; 0 means no bound.
	MaxBytes int
}

// Decision is who gets which node, and why others do not.
type Decision struct {
	// Index is what is to be granted; its Version is the snapshot's.
	Index Index
	// Pending maps a Reservation's name to the nodes that it claims and does not hold, sorted by node name.
	Pending map[string][]v1alpha1.PendingNode
	// Generations maps each Reservation's name to the generation of the spec that was read.
	Generations map[string]int64
}

// Decide says who gets which node. It does not change the snapshot, gives the same answer for the same snapshot in
// any order, and deciding again from its own answer changes nothing. The rules (DESIGN.md, Laws 1, 3, 9, 10):
//
//  1. Who holds a node and still claims it keeps it, whoever else claims it.
//  2. Who holds a node and no longer claims it releases it; until the tenant's pods are gone, nobody gets it.
//     A claimant of the same tenant need not wait: the tenant's pods stay where they are.
//  3. A drained node goes to the first claimant at once; without one it is freed, then forgotten once unlocked.
//  4. A free node goes to the first claimant: the older Reservation, then the smaller UID, then the smaller name.
//  5. A node that bears a lock and has no grant is taken up as its own lock says: the index was lost, or somebody
//     labelled it by hand.
//  6. A Reservation whose selector cannot be read keeps what it holds; one that names neither pool nor nodes claims
//     nothing.
//  7. A node that is away (no Node object) keeps its grant while its holder claims it by name, and gets no new one.
//  8. A node accepts nobody while it bears its own holder's lock for another tenant (the Reservation was made anew under
//     its old name), or may bear such a lock that is not in sight yet.
//  9. Where the index is full, no new grant and no further namespace is written; what is held stays held.
func Decide(s Snapshot) Decision {
	d := decider{
		Snapshot:     s,
		nodes:        make(map[string]Node, len(s.Nodes)),
		reservations: make(map[string]*v1alpha1.Reservation, len(s.Reservations)),
		claims:       make(map[string][]*v1alpha1.Reservation, len(s.Nodes)),
		accepted:     make(map[string][]string, len(s.Reservations)),
		next:         Index{Version: s.Index.Version, Bound: s.Bound, Grants: make(map[string]Grant, len(s.Index.Grants))},
		pending:      map[string][]v1alpha1.PendingNode{},
		generations:  make(map[string]int64, len(s.Reservations)),
		unreadable:   map[string]bool{},
		full:         map[string]bool{},
		closed:       map[string]bool{},
		byLabel:      map[string]map[string][]int{},
	}
	for _, node := range s.Nodes {
		if node.Name != v1alpha1.ProbeNode { // nobody's, or the fence could not be proven
			d.nodes[node.Name] = node
		}
	}
	d.gatherClaims()
	d.grantAll()
	d.fit()
	for node := range d.closed { // only now: there must be room for what they will accept
		grant := d.next.Grants[node]
		grant.Namespaces = nil
		d.next.Grants[node] = grant
	}
	d.explain()
	return Decision{Index: d.next, Pending: d.pending, Generations: d.generations}
}

type decider struct {
	Snapshot
	nodes        map[string]Node
	reservations map[string]*v1alpha1.Reservation
	// claims holds, for each node, the Reservations that may have it, in order of rule 4.
	claims map[string][]*v1alpha1.Reservation
	// accepted holds the sorted namespaces of the Reservations that were granted a node.
	accepted    map[string][]string
	next        Index
	pending     map[string][]v1alpha1.PendingNode
	generations map[string]int64
	// unreadable names the Reservations whose selector cannot be read, and full the nodes that the index has no room
	// for, or not for all of their namespaces.
	unreadable, full map[string]bool
	// closed names the nodes that accept nobody by rule 8 until their lock is in sight.
	closed map[string]bool
	// byLabel finds nodes by a label's key and value, as indexes of Nodes; a key is in it once it was asked for.
	byLabel map[string]map[string][]int
}

// grantAll decides about every node that has a grant, a claim or a lock.
func (d *decider) grantAll() {
	decide := func(name string) {
		if _, decided := d.next.Grants[name]; decided {
			return
		}
		if grant, ok := d.grant(name); ok {
			d.next.Grants[name] = grant
		}
	}
	for name := range d.Index.Grants {
		decide(name)
	}
	for name := range d.claims {
		decide(name)
	}
	for name, node := range d.nodes {
		if node.locked() {
			decide(name)
		}
	}
}

// grant decides about one node. It returns false for a node that is free and stays so.
func (d *decider) grant(name string) (Grant, bool) {
	node, exists := d.nodes[name]
	now, granted := d.Index.Grants[name]
	if !granted && node.locked() {
		now, granted = d.adopt(node), true
	}
	if granted {
		switch holder := d.holder(name, now); {
		case now.Phase == Freed && exists && node.locked():
			return Grant{Reservation: now.Reservation, Phase: Freed}, true
		case now.Phase == Freed:
			// Unlocked or gone: free, and so open to the first claimant below.
		case holder != nil:
			if exists && !sameLife(holder, node, now) {
				d.closed[name] = true
			}
			return d.held(holder, node), true
		case !exists:
			return Grant{}, false
		case d.takesOver(node, now):
			return d.held(d.first(name), node), true
		case now.Phase == Releasing && d.Drained[name]:
			return Grant{Reservation: now.Reservation, Phase: Freed}, node.locked()
		default:
			return Grant{Reservation: now.Reservation, Phase: Releasing}, true
		}
	}
	first := d.first(name)
	if first == nil || !exists || node.Deleting {
		return Grant{}, false
	}
	return d.held(first, node), true
}

// adopt returns the grant that a lock without one stands for. A holder that no object can be called is nobody: who may
// annotate a Node must not write into the index through it.
func (d *decider) adopt(node Node) Grant {
	if len(validation.IsDNS1123Subdomain(node.Holder)) > 0 {
		return Grant{Reservation: Orphan, Phase: Releasing}
	}
	return Grant{Reservation: node.Holder}
}

// holder returns the Reservation of a grant if it still claims the node. One whose selector cannot be read keeps what
// it has: a mistake in a selector releases nothing.
func (d *decider) holder(name string, g Grant) *v1alpha1.Reservation {
	r := d.reservations[g.Reservation]
	if r == nil || !r.DeletionTimestamp.IsZero() {
		return nil
	}
	if d.unreadable[r.Name] && g.Phase == Held {
		return r
	}
	for _, claimant := range d.claims[name] {
		if claimant.Name == g.Reservation {
			return claimant
		}
	}
	return nil
}

func (d *decider) first(name string) *v1alpha1.Reservation {
	if len(d.claims[name]) == 0 {
		return nil
	}
	return d.claims[name][0]
}

// takesOver reports whether the first claimant of a node that its holder gave up may have it now: it is drained, or
// both the lock on it, which is that of who gave it up, and who gave it up are of the claimant's own tenant.
func (d *decider) takesOver(node Node, now Grant) bool {
	first := d.first(node.Name)
	if first == nil || node.Deleting {
		return false
	}
	if now.Phase == Releasing && d.Drained[node.Name] {
		return true
	}
	giver := d.reservations[now.Reservation]
	return d.adopt(node).Reservation == now.Reservation && first.Spec.Tenant == node.Tenant && (giver == nil || giver.Spec.Tenant == first.Spec.Tenant)
}

// Confirms reports whether all that a change of a node says is that the lock came on which a grant to the Reservation
// stands for. No decision depends on that, unless the node accepts nobody until then (rule 8).
func Confirms(before, after Node, g Grant, r *v1alpha1.Reservation) bool {
	others := func(labels map[string]string) map[string]string {
		labels = maps.Clone(labels)
		delete(labels, v1alpha1.LabelTenant)
		return labels
	}
	return g.Phase == Held && g.Reservation == r.Name && len(g.Namespaces) > 0 && r.DeletionTimestamp.IsZero() &&
		!before.locked() && after.Holder == r.Name && after.Tenant == r.Spec.Tenant &&
		before.Deleting == after.Deleting && maps.Equal(others(before.Labels), others(after.Labels))
}

// explain says of every claim that was not granted why not.
func (d *decider) explain() {
	for name, claimants := range d.claims {
		grant, granted := d.next.Grants[name]
		node, exists := d.nodes[name]
		for _, r := range claimants {
			switch {
			case !exists:
				// That its Node is away was said when the claims were gathered.
			case d.full[name] && (!granted || grant.Reservation == r.Name):
				d.pend(r, name, v1alpha1.PendingIndexFull, "")
			case granted && grant.Reservation == r.Name && grant.Phase == Held:
			case granted && grant.Phase == Held:
				d.pend(r, name, v1alpha1.PendingHeldBy, grant.Reservation)
			case granted:
				d.pend(r, name, v1alpha1.PendingReleasingFrom, d.tenant(name, grant))
			case node.Deleting:
				d.pend(r, name, v1alpha1.PendingNodeDeleting, "")
			}
		}
	}
	for _, pending := range d.pending {
		slices.SortFunc(pending, func(a, b v1alpha1.PendingNode) int { return strings.Compare(a.Name, b.Name) })
	}
}

// tenant returns the tenant of a grant: whose lock the node bears, or, before it bears one, the Reservation's.
func (d *decider) tenant(node string, g Grant) string {
	if tenant := d.nodes[node].Tenant; tenant != "" {
		return tenant
	}
	if r := d.reservations[g.Reservation]; r != nil {
		return r.Spec.Tenant
	}
	return ""
}

func (d *decider) pend(r *v1alpha1.Reservation, node string, reason v1alpha1.PendingReason, by string) {
	d.pending[r.Name] = append(d.pending[r.Name], v1alpha1.PendingNode{Name: node, Reason: reason, By: by})
}

// sameLife reports whether a grant is known to have been made for this Reservation, and not for one of the same name that
// is gone: the node bears its tenant's lock, or it lets in nobody who would not be let in now.
func sameLife(r *v1alpha1.Reservation, node Node, now Grant) bool {
	accepted := r.AcceptedNamespaces()
	return node.Tenant == r.Spec.Tenant || now.Phase == Held && len(now.Namespaces) > 0 &&
		!slices.ContainsFunc(now.Namespaces, func(namespace string) bool { return !slices.Contains(accepted, namespace) })
}

// held returns the grant of a node to a Reservation. Rule 8 is here.
func (d *decider) held(r *v1alpha1.Reservation, node Node) Grant {
	if node.Holder == r.Name && node.Tenant != "" && node.Tenant != r.Spec.Tenant {
		return Grant{Reservation: r.Name}
	}
	accepted, sorted := d.accepted[r.Name]
	if !sorted {
		accepted = slices.Sorted(slices.Values(r.AcceptedNamespaces()))
		d.accepted[r.Name] = accepted
	}
	return Grant{Reservation: r.Name, Namespaces: accepted}
}
