package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// bound: law 8, no foreign pod comes to a reserved node. A handover lets the next tenant's pods in a moment before its
// lock is on, when those of the one before are gone.
func (t *truth) bound(p *corev1.Pod) {
	n := t.nodes[p.Spec.NodeName]
	if n == nil || n.lock == "" || p.Namespace == metav1.NamespaceSystem {
		return
	}
	if n.torn || t.accepted[n.lock][p.Namespace] {
		return
	}
	next := t.world.fence.index.Grants[p.Spec.NodeName]
	if !slices.Contains(next.Namespaces, p.Namespace) {
		t.world.violate("law 8", "pod %s comes to node %s, which is locked for %s", keyOf(p), p.Spec.NodeName, n.lock)
		return
	}
	for _, other := range t.world.server.podsOn(p.Spec.NodeName) {
		if !slices.Contains(next.Namespaces, other.Namespace) && active(other) && len(other.OwnerReferences) == 0 && demands(other, n.lock) {
			t.world.violate("law 8", "pod %s comes to node %s beside %s of %s", keyOf(p), p.Spec.NodeName, keyOf(other), n.lock)
		}
	}
}

// deleted checks that the operator may evict or, by force of deleteAfter, delete a pod: it saw it there, it counts, it
// was asked to, and the pod keeps a grace period.
func (t *truth) deleted(by *task, p *corev1.Pod, grace *int64, forced bool) {
	const law = "evictions"
	if t.world.did.Evictions++; forced {
		t.world.did.Deletions++
	}
	saw, node := by.saw, by.saw.node
	if seen := saw.pods[p.UID]; seen == nil || node == nil || p.Spec.NodeName != node.Name {
		t.world.violate(law, "%s evicts pod %s, which is not the one that it saw on its node", by, keyOf(p))
		return
	}
	if grace != nil && *grace < 1 {
		t.world.violate(law, "%s forces pod %s", by, keyOf(p))
	}
	if unreachable(node) {
		t.world.violate(law, "%s evicts pod %s on node %s, which is out of touch", by, keyOf(p), node.Name)
	}
	tenant := node.Labels[v1alpha1.LabelTenant]
	grant := saw.grant
	if grant.Phase == allocate.Held && grant.Reservation != "" {
		if next := saw.reservations[grant.Reservation]; next == nil || next.Spec.Tenant == tenant {
			t.world.violate(law, "%s evicts pod %s on node %s, which nobody gave up", by, keyOf(p), node.Name)
		} else if !t.systems(p, node, saw.listed) {
			t.world.violate(law, "%s evicts pod %s before a handover, which is no DaemonSet's", by, keyOf(p))
		}
		return
	}
	r := saw.reservations[grant.Reservation]
	if r != nil && !slices.Contains(r.AcceptedNamespaces(), p.Namespace) && !demands(p, r.Spec.Tenant) {
		t.world.violate(law, "%s evicts pod %s for Reservation %s, whose it is not", by, keyOf(p), r.Name)
	}
	since, err := time.Parse(time.RFC3339, node.Annotations[v1alpha1.AnnotationReleasingSince])
	age := t.world.Now().Sub(since)
	passed := func(d *metav1.Duration) bool { return d != nil && age >= d.Duration }
	switch {
	case r == nil || err != nil || !node.Spec.Unschedulable:
		t.world.violate(law, "%s evicts pod %s on node %s, which is not cordoned for a release", by, keyOf(p), node.Name)
	case !r.Spec.EvictOnRelease && !passed(r.Spec.EvictAfter) && !passed(r.Spec.DeleteAfter):
		t.world.violate(law, "%s evicts pod %s, which Reservation %s did not ask for", by, keyOf(p), r.Name)
	case forced && !passed(r.Spec.DeleteAfter):
		t.world.violate(law, "%s deletes pod %s, which Reservation %s did not ask for", by, keyOf(p), r.Name)
	}
}
