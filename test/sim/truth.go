package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// truth is what really happened, whatever the operator knows of it. The laws are checked against it at each write. Its
// rules are written anew here and share no code with the operator's, but for the reading of the index.
type truth struct {
	world *world
	// index is what is stored; found is false while there is none.
	index allocate.Index
	found bool
	// writings counts its changes.
	writings int
	nodes    map[string]*nodeTruth
	// accepted are the namespaces that any Reservation of a tenant ever accepted.
	accepted map[string]map[string]bool
	// gone says when a DaemonSet went, and born when a Reservation was made.
	gone, born map[types.UID]int64
	// entered are the tenants for which the index has each node; empty if their Reservation was gone already.
	entered map[string]string
}

// owner is who cordoned a node.
type owner int

const (
	nobody owner = iota
	operator
	admin
	// either: an admin has uncordoned and cordoned it again, or took our mark off, so that nobody can tell.
	either
)

// nodeTruth is what happened to one Node object.
type nodeTruth struct {
	uid    types.UID
	cordon owner
	// granted says that the index granted it when the operator knew this very Node.
	granted bool
	// lock is the tenant for which the operator locked it, and taint what it put there for that; torn says that
	// somebody else has changed a part of it since.
	lock, taint string
	torn        bool
}

func newTruth(w *world) *truth {
	return &truth{
		world: w, nodes: map[string]*nodeTruth{}, accepted: map[string]map[string]bool{}, gone: map[types.UID]int64{}, born: map[types.UID]int64{},
		entered: map[string]string{},
	}
}

// of returns what happened to a node.
func (t *truth) of(n *corev1.Node) *nodeTruth {
	known := t.nodes[n.Name]
	if known == nil || known.uid != n.UID {
		known = &nodeTruth{uid: n.UID}
		t.nodes[n.Name] = known
	}
	return known
}

// changed is told of every change.
func (t *truth) changed(by *task, k kind, before, after client.Object) {
	switch k {
	case nodes:
		was, _ := before.(*corev1.Node)
		is, _ := after.(*corev1.Node)
		switch {
		case by != nil && (was == nil || is == nil):
			t.world.violate("nodes are others'", "%s makes or deletes a Node", by)
		case by != nil:
			t.wrote(by, was, is)
		case is == nil:
			delete(t.nodes, was.Name)
		case was != nil:
			t.touched(was, is)
		}
	case reservations:
		t.reservation(by, before, after)
	case configs:
		m, _ := after.(*corev1.ConfigMap)
		t.indexed(by, m)
	case daemons:
		if after == nil {
			t.gone[before.GetUID()] = t.world.server.tick
		}
	}
}

// touched notes what others do to a node.
func (t *truth) touched(was, is *corev1.Node) {
	n := t.of(is)
	_, marked := was.Annotations[v1alpha1.AnnotationCordoned]
	_, stillMarked := is.Annotations[v1alpha1.AnnotationCordoned]
	switch {
	case !was.Spec.Unschedulable && is.Spec.Unschedulable:
		if n.cordon = admin; marked {
			n.cordon = either
		}
	case was.Spec.Unschedulable && !is.Spec.Unschedulable:
		n.cordon = nobody
	case marked && !stillMarked && n.cordon == operator:
		n.cordon = either
	}
	mine := slices.ContainsFunc(was.Spec.Taints, n.ours) != slices.ContainsFunc(is.Spec.Taints, n.ours)
	if mine || was.Labels[v1alpha1.LabelTenant] != is.Labels[v1alpha1.LabelTenant] || marks(was) != marks(is) {
		n.torn = true
	}
	if is.Labels[v1alpha1.LabelTenant] == "" {
		n.lock = ""
	}
}

// ours reports whether the operator put a taint there.
func (n *nodeTruth) ours(t corev1.Taint) bool { return n.taint != "" && t.ToString() == n.taint }

// marks are the annotations of a lock.
func marks(n *corev1.Node) [4]string {
	return [4]string{
		n.Annotations[v1alpha1.AnnotationReservation], n.Annotations[v1alpha1.AnnotationTaintEffect],
		n.Annotations[v1alpha1.AnnotationReleasingSince], n.Annotations[v1alpha1.AnnotationCordoned],
	}
}

// bears reports whether a node bears any part of a lock.
func bears(n *corev1.Node) bool {
	return n.Labels[v1alpha1.LabelTenant] != "" || marks(n) != [4]string{}
}

func (t *truth) reservation(by *task, before, after client.Object) {
	was, _ := before.(*v1alpha1.Reservation)
	is, _ := after.(*v1alpha1.Reservation)
	if was == nil {
		t.born[is.UID] = t.world.server.tick
	}
	if is != nil {
		tenant := is.Spec.Tenant
		if t.accepted[tenant] == nil {
			t.accepted[tenant] = map[string]bool{}
		}
		for _, namespace := range is.AcceptedNamespaces() {
			t.accepted[tenant][namespace] = true
		}
	}
	if by == nil || was == nil || len(was.Finalizers) == 0 || is != nil && len(is.Finalizers) > 0 {
		return
	}
	for name, g := range t.index.Grants {
		if n := t.nodes[name]; g.Reservation == was.Name && n != nil && n.lock != "" {
			t.world.violate("law 9", "%s lets Reservation %s go, which still has node %s", by, was.Name, name)
		}
	}
}

// claims reports whether a Reservation claims a node, which may be away (nil).
func claims(r *v1alpha1.Reservation, name string, n *corev1.Node) bool {
	selector, err := metav1.LabelSelectorAsSelector(r.Spec.NodeSelector)
	if r.Spec.NodeSelector == nil {
		selector = labels.Everything()
	}
	if err != nil || !r.DeletionTimestamp.IsZero() {
		return false
	}
	matches := n != nil && selector.Matches(labels.Set(n.Labels))
	if r.Spec.ReservedNodes != nil {
		return slices.Contains(r.Spec.ReservedNodes, name) && (n == nil || matches)
	}
	return r.Spec.NodeSelector != nil && matches
}

// demands reports whether a pod's spec says that it is this tenant's.
func demands(p *corev1.Pod, tenant string) bool {
	if a := p.Spec.Affinity; a != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			if slices.Contains(term.MatchExpressions[0].Values, tenant) {
				return true
			}
		}
	}
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == v1alpha1.TaintKey && t.Value == tenant
	})
}

// systems reports whether a pod comes with its node: a static one, or one of a DaemonSet that was there at a tick.
func (t *truth) systems(p *corev1.Pod, n *corev1.Node, tick int64) bool {
	o := metav1.GetControllerOf(p)
	switch {
	case o == nil:
		return false
	case o.Kind == "Node":
		return p.Annotations[corev1.MirrorPodAnnotationKey] != "" && o.Name == n.Name && o.UID == n.UID
	case o.Kind != "DaemonSet":
		return false
	}
	set := t.world.server.get(daemons, keyFor(p.Namespace, o.Name))
	went, known := t.gone[o.UID]
	return set != nil && set.GetUID() == o.UID || known && went > tick
}
