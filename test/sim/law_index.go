package sim

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// indexed checks a new index; nil is one that is gone.
func (t *truth) indexed(by *task, m *corev1.ConfigMap) {
	t.writings++
	before, had := t.index, t.found
	if t.index, t.found = (allocate.Index{}), m != nil; m == nil {
		return
	}
	var err error
	if t.index, err = allocate.Parse(m.Data); err != nil {
		t.world.violate("index", "%s writes an index that cannot be read: %v", by, err)
		return
	}
	for name, g := range t.index.Grants {
		if g.Phase != allocate.Held && len(accepted(m.Data, name)) > 0 {
			t.world.violate("law 8", "%s lets pods come to node %s, which is being released", by, name)
		}
	}
	for name, node := range by.saw.cached {
		if _, granted := t.index.Grants[name]; granted && t.world.server.node(name) != nil && t.world.server.node(name).UID == node.UID {
			t.of(node).granted = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		if _, granted := t.index.Grants[name]; !granted && t.nodes[name].lock != "" {
			t.world.violate("law 9", "%s forgets node %s, which is locked for %s", by, name, t.nodes[name].lock)
		}
	}
	for name, g := range t.index.Grants {
		if b := before.Grants[name]; b.Reservation != g.Reservation || b.Phase != g.Phase && g.Phase == allocate.Held {
			t.entered[name] = ""
			if r := t.world.server.reservation(g.Reservation); r != nil {
				t.entered[name] = r.Spec.Tenant
			}
		}
	}
	if !had {
		return // who held what is only known from the nodes
	}
	for _, name := range slices.Sorted(maps.Keys(t.index.Grants)) {
		t.regranted(by, name, before.Grants[name], t.index.Grants[name])
	}
	for _, name := range slices.Sorted(maps.Keys(before.Grants)) {
		if _, stays := t.index.Grants[name]; !stays {
			t.takes(by, name, before.Grants[name])
			t.forgets(by, name, before.Grants[name])
		}
	}
}

// forgets: law 2, as long as a tenant's pod runs on a node the index keeps others from it, also if the node bears no lock:
// somebody tore it off, or it was given up before it was on.
func (t *truth) forgets(by *task, name string, before allocate.Grant) {
	r := t.world.server.reservation(before.Reservation)
	saw := by.saw.reservations[before.Reservation]
	if n := t.nodes[name]; r == nil || saw == nil || saw.UID != r.UID || n == nil || !n.granted || t.entered[name] != r.Spec.Tenant {
		return // whose pods they are cannot be known, or the node is gone, or a new one, or it was had for one of that name before
	}
	for _, p := range t.world.server.podsOn(name) {
		if len(p.OwnerReferences) == 0 && active(p) && demands(p, r.Spec.Tenant) {
			t.world.violate("law 2", "%s forgets node %s under pod %s of %s", by, name, keyOf(p), r.Spec.Tenant)
		}
	}
}

// regranted checks one node's grant. The zero Grant is none.
func (t *truth) regranted(by *task, name string, before, after allocate.Grant) {
	if before.Reservation == after.Reservation && before.Phase == after.Phase {
		return
	}
	if before.Reservation != "" && before.Phase == allocate.Held && (after.Reservation != before.Reservation || after.Phase != allocate.Held) {
		t.takes(by, name, before)
	}
	if before.Reservation == after.Reservation && after.Phase != allocate.Freed {
		return
	}
	r := by.saw.reservations[after.Reservation]
	if node := t.world.server.node(name); node != nil && before.Reservation != "" {
		// Whoever gets it next, and whoever frees it, finds none of those who had it.
		tenant := node.Labels[v1alpha1.LabelTenant]
		if after.Phase == allocate.Held && r != nil && r.Spec.Tenant == tenant {
			return
		}
		for _, p := range t.world.server.podsOn(name) {
			if o := p.OwnerReferences; tenant != "" && len(o) == 0 && active(p) && demands(p, tenant) && t.nodes[name].lock == tenant {
				t.world.violate("law 2", "%s ends the release of node %s under pod %s of %s", by, name, keyOf(p), tenant)
			}
		}
	}
	if after.Phase == allocate.Held && r != nil && (before.Reservation == "" || before.Phase == allocate.Freed) {
		t.oldest(by, name, r)
	}
}

// takes: law 10, who holds a node and claims it keeps it.
func (t *truth) takes(by *task, name string, before allocate.Grant) {
	r := by.saw.reservations[before.Reservation]
	if now := t.world.server.reservation(before.Reservation); r == nil && now != nil && t.born[now.UID] < by.saw.tick {
		r = now // it was there, and the task did not look
	}
	if before.Phase == allocate.Held && r != nil && claims(r, name, by.saw.cached[name]) {
		t.world.violate("law 10", "%s takes node %s from Reservation %s, which claims it", by, name, r.Name)
	}
}

// oldest: law 10, of several new claimants the older wins, then the one with the smaller UID.
func (t *truth) oldest(by *task, name string, r *v1alpha1.Reservation) {
	node := by.saw.cached[name]
	if node == nil || bears(node) {
		return // its lock says whose it is
	}
	for _, other := range by.saw.reservations {
		if claims(other, name, node) && cmp.Or(
			other.CreationTimestamp.Compare(r.CreationTimestamp.Time), cmp.Compare(other.UID, r.UID), cmp.Compare(other.Name, r.Name)) < 0 {
			t.world.violate("law 10", "%s grants node %s to Reservation %s, though %s is older", by, name, r.Name, other.Name)
		}
	}
}
