package sim

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// wrote checks what the operator did to a node.
func (t *truth) wrote(by *task, was, is *corev1.Node) {
	n := t.of(is)
	t.sparesOthers(by, n, was, is)
	t.cordons(by, n, was, is)
	before, after := was.Labels[v1alpha1.LabelTenant], is.Labels[v1alpha1.LabelTenant]
	if before != "" && before != after {
		t.yanks(by, was, before)
		if unreachable(was) {
			t.world.violate("law 2", "%s takes the lock of %s off node %s, which is out of touch", by, before, was.Name)
		}
	}
	switch {
	case marks(was)[2] == "" && marks(is)[2] != "":
		t.beginsRelease(by, was, is)
	case disowned(was, is):
	case after == "":
		t.unlocked(by, n, was, is)
	default:
		t.locked(by, n, was, is)
	}
}

// disowned reports whether all that changed is that our mark on a cordon is gone.
func disowned(was, is *corev1.Node) bool {
	x, y := marks(was), marks(is)
	marked := x[3]
	x[3] = ""
	return marked != "" && x == y && !is.Spec.Unschedulable && !was.Spec.Unschedulable && equality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints)
}

// sparesOthers: what is not ours is as it was.
func (t *truth) sparesOthers(by *task, n *nodeTruth, was, is *corev1.Node) {
	const law = "others' taints and labels stay"
	strip := func(of map[string]string) map[string]string {
		rest := maps.Clone(of)
		for _, key := range []string{
			v1alpha1.LabelTenant, v1alpha1.AnnotationReservation, v1alpha1.AnnotationTaintEffect,
			v1alpha1.AnnotationReleasingSince, v1alpha1.AnnotationCordoned,
		} {
			delete(rest, key)
		}
		return rest
	}
	if !maps.Equal(strip(was.Labels), strip(is.Labels)) || !maps.Equal(strip(was.Annotations), strip(is.Annotations)) {
		t.world.violate(law, "%s changes a label or annotation of node %s that is not its own", by, is.Name)
	}
	same := func(x corev1.Taint) func(corev1.Taint) bool {
		return func(y corev1.Taint) bool { return equality.Semantic.DeepEqual(x, y) }
	}
	for _, taint := range was.Spec.Taints {
		if !n.ours(taint) && !(n.torn && taint.Key == v1alpha1.TaintKey) && !slices.ContainsFunc(is.Spec.Taints, same(taint)) {
			t.world.violate(law, "%s takes the taint %s off node %s", by, taint.ToString(), is.Name)
		}
	}
	for _, taint := range is.Spec.Taints {
		own := taint.Key == v1alpha1.TaintKey && taint.Value == is.Labels[v1alpha1.LabelTenant]
		if !own && !slices.ContainsFunc(was.Spec.Taints, same(taint)) {
			t.world.violate(law, "%s puts the taint %s on node %s", by, taint.ToString(), is.Name)
		}
	}
}

// cordons: law 4, the operator uncordons only what it cordoned, and marks what it did.
func (t *truth) cordons(by *task, n *nodeTruth, was, is *corev1.Node) {
	_, marked := was.Annotations[v1alpha1.AnnotationCordoned]
	_, marks := is.Annotations[v1alpha1.AnnotationCordoned]
	switch {
	case !was.Spec.Unschedulable && is.Spec.Unschedulable:
		if n.cordon = operator; !marks {
			t.world.violate("law 4", "%s cordons node %s without its mark", by, is.Name)
		}
	case was.Spec.Unschedulable && !is.Spec.Unschedulable:
		if n.cordon == admin {
			t.world.violate("law 4", "%s uncordons node %s, which an admin cordoned", by, is.Name)
		}
		n.cordon = nobody
	case !marked && marks:
		t.world.violate("law 4", "%s marks the cordon of node %s as its own, which it is not", by, is.Name)
	case marked && !marks && is.Spec.Unschedulable && n.cordon == operator:
		t.world.violate("law 4", "%s forgets its cordon of node %s", by, is.Name)
	}
}

// yanks: law 2, no tenant's pod is left on a node without its lock. One that came since the last look, and that the index
// lets in, is the next tenant's.
func (t *truth) yanks(by *task, n *corev1.Node, tenant string) {
	next := t.index.Grants[n.Name]
	for _, p := range t.world.server.podsOn(n.Name) {
		welcome := by.saw.pods[p.UID] == nil && slices.Contains(next.Namespaces, p.Namespace)
		if !welcome && t.counts(by, p, n, tenant) {
			t.world.violate("law 2", "%s takes the lock of %s off node %s under pod %s", by, tenant, n.Name, keyOf(p))
		}
	}
}

// counts reports whether a pod is one for which a release waits, by what the task could know of its namespaces.
func (t *truth) counts(by *task, p *corev1.Pod, n *corev1.Node, tenant string) bool {
	if !active(p) || t.systems(p, n, by.saw.listed) {
		return false
	}
	namespaces := []string{}
	for _, r := range by.saw.reservations {
		if r.Spec.Tenant == tenant {
			namespaces = append(namespaces, r.AcceptedNamespaces()...)
		}
	}
	if len(namespaces) == 0 {
		namespaces = []string{tenant}
	}
	return slices.Contains(namespaces, p.Namespace) || demands(p, tenant)
}

// unlocked: laws 1 and 3, nothing of ours is left, and nobody else was promised the node.
func (t *truth) unlocked(by *task, n *nodeTruth, was, is *corev1.Node) {
	if bears(is) || !n.torn && slices.ContainsFunc(is.Spec.Taints, n.ours) {
		t.world.violate("law 1", "%s leaves a part of a lock on node %s", by, is.Name)
	}
	if g := t.index.Grants[is.Name]; g.Phase == allocate.Held && len(g.Namespaces) > 0 && was.Labels[v1alpha1.LabelTenant] != "" {
		t.world.violate("law 3", "%s unlocks node %s, which is granted to %s: one moment without a lock", by, is.Name, g.Reservation)
	}
	n.lock, n.taint, n.torn = "", "", false
	t.world.did.Unlocks++
}

func (t *truth) beginsRelease(by *task, was, is *corev1.Node) {
	t.world.did.Drains++
	if !bears(was) {
		t.world.violate("a new node is new", "%s begins to release node %s, which bears no lock", by, is.Name)
	}
	if by.saw.grant.Phase != allocate.Releasing {
		t.world.violate("law 2", "%s begins to release node %s, which nobody gave up", by, is.Name)
	}
}

// locked: law 1, label, taint and annotations are those of one Reservation; and the fence stood before.
func (t *truth) locked(by *task, n *nodeTruth, was, is *corev1.Node) {
	tenant, name := is.Labels[v1alpha1.LabelTenant], is.Annotations[v1alpha1.AnnotationReservation]
	r := by.saw.reservations[name]
	if r == nil || r.Spec.Tenant != tenant {
		t.world.violate("law 1", "%s locks node %s for %s in the name of Reservation %q", by, is.Name, tenant, name)
		return
	}
	if !lockedFor(is, r) {
		t.world.violate("law 1", "%s locks node %s, but label, taint and annotations do not agree", by, is.Name)
	}
	if n.lock != tenant {
		t.fenced(by, is.Name, r)
		if t.world.did.Locks++; n.lock != "" {
			t.world.did.Handovers++
		}
	}
	n.lock, n.taint, n.torn = tenant, "", false
	if r.Taints() {
		n.taint = taintOf(r).ToString()
	}
}

func taintOf(r *v1alpha1.Reservation) *corev1.Taint {
	return &corev1.Taint{Key: v1alpha1.TaintKey, Value: r.Spec.Tenant, Effect: r.Effect()}
}

// lockedFor reports whether label, taint and annotations of a node are those of a Reservation.
func lockedFor(n *corev1.Node, r *v1alpha1.Reservation) bool {
	want, tainted := [4]string{r.Name, string(r.Effect()), "", ""}, true
	if r.Taints() {
		tainted = slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.ToString() == taintOf(r).ToString() })
	} else {
		want[1] = ""
	}
	return n.Labels[v1alpha1.LabelTenant] == r.Spec.Tenant && marks(n) == want && tainted
}

// fenced: a lock comes after the index, and after the API server enforces it.
func (t *truth) fenced(by *task, node string, r *v1alpha1.Reservation) {
	const law = "index first"
	if t.index.Grants[node].Reservation != r.Name && by.saw.grant.Reservation != r.Name {
		t.world.violate(law, "%s locks node %s for %s, which the index does not grant", by, node, r.Name)
	}
	fence := t.world.fence
	if fence.data == nil {
		return // the index is gone: everything is refused
	}
	if !fence.lists(node) {
		t.world.violate(law, "%s locks node %s for %s, but the API server does not enforce it yet", by, node, r.Name)
	}
	for _, namespace := range accepted(fence.data, node) {
		if !t.accepted[r.Spec.Tenant][namespace] {
			t.world.violate(law, "%s locks node %s for %s, but the API server still lets pods of %s in", by, node, r.Name, namespace)
		}
	}
}
