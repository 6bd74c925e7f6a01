package main

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// history is the record, replayed up to some change. A tenant's namespace is called like the tenant, every Reservation
// taints, an admin who cordons a node never uncordons it, and beta alone has its pods evicted: so the story goes.
type history struct {
	nodes    map[string]*corev1.Node
	pods     map[client.ObjectKey]*corev1.Pod
	index    allocate.Index
	cordoned map[string]bool // by an admin
	// steps counts the changes of each node's lock.
	steps map[string]int
	// evicted are the pods that the operator evicted or deleted, or may have.
	evicted map[client.ObjectKey]bool
	broken  []string
}

// judge returns what in the record breaks a law of DESIGN.md; writes are the operator's, which must be as many for each
// node as there are changes of its lock.
func judge(changes []change, writes []write) []string {
	h := &history{
		nodes: map[string]*corev1.Node{}, pods: map[client.ObjectKey]*corev1.Pod{},
		cordoned: map[string]bool{}, steps: map[string]int{}, evicted: map[client.ObjectKey]bool{},
	}
	for _, w := range writes {
		if w.Resource == "pods/eviction" || w.Resource == "pods" {
			h.evicted[client.ObjectKey{Namespace: w.Namespace, Name: w.Name}] = true
		}
	}
	for _, c := range changes {
		switch o := c.object.(type) {
		case *corev1.Node:
			h.node(c, o)
		case *corev1.Pod:
			h.pod(c, o)
		case *corev1.ConfigMap:
			h.indexed(c, o)
		}
	}
	said, perhaps := map[string]int{}, map[string]int{}
	for _, w := range writes {
		switch {
		case w.Resource == "nodes" && w.lost:
			perhaps[w.Name]++
		case w.Resource == "nodes":
			said[w.Name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.everywhere(said))) {
		if n := h.steps[name]; n < said[name] || n > said[name]+perhaps[name] {
			h.violate(0, "no write is repeated", "node %s was written %d times (and perhaps %d more) for %d changes of its lock", name, said[name], perhaps[name], n)
		}
	}
	return h.broken
}

// everywhere returns the nodes that were written or whose lock changed.
func (h *history) everywhere(written map[string]int) map[string]int {
	all := maps.Clone(h.steps)
	maps.Copy(all, written)
	return all
}

func (h *history) violate(version uint64, law, format string, args ...any) {
	h.broken = append(h.broken, fmt.Sprintf("%s, at %d: %s", law, version, fmt.Sprintf(format, args...)))
}

// lock is what of a lock a node bears.
type lock struct {
	tenant, reservation, effect, since string
	ours, cordoned                     bool // the cordon is ours; there is one
	taints                             string
}

func lockOf(n *corev1.Node) lock {
	l := lock{
		tenant: n.Labels[v1alpha1.LabelTenant], reservation: n.Annotations[v1alpha1.AnnotationReservation],
		effect: n.Annotations[v1alpha1.AnnotationTaintEffect], since: n.Annotations[v1alpha1.AnnotationReleasingSince],
		cordoned: n.Spec.Unschedulable,
	}
	_, l.ours = n.Annotations[v1alpha1.AnnotationCordoned]
	for _, t := range n.Spec.Taints {
		if t.Key == v1alpha1.TaintKey {
			l.taints += t.ToString()
		}
	}
	return l
}

// whole reports whether all parts of a lock are there, or none.
func (l lock) whole() bool {
	if l.tenant == "" {
		return l.reservation == "" && l.effect == "" && l.since == "" && !l.ours && l.taints == ""
	}
	releasing := l.since != ""
	return l.reservation != "" && l.taints == fmt.Sprintf("%s=%s:%s", v1alpha1.TaintKey, l.tenant, l.effect) &&
		(!releasing && !l.ours || releasing && l.cordoned)
}

func (h *history) node(c change, is *corev1.Node) {
	was := h.nodes[is.Name]
	if c.gone {
		delete(h.nodes, is.Name)
		delete(h.cordoned, is.Name)
		return
	}
	h.nodes[is.Name] = is
	if was == nil {
		was = &corev1.Node{}
	}
	before, after := lockOf(was), lockOf(is)
	switch {
	case !before.cordoned && after.cordoned && !after.ours:
		h.cordoned[is.Name] = true
	case before.cordoned && !after.cordoned && h.cordoned[is.Name]:
		h.violate(c.version, "law 4", "node %s is uncordoned, which an admin had cordoned", is.Name)
	case before.ours && !after.ours && after.cordoned:
		h.violate(c.version, "law 4", "node %s stays cordoned by us, and nothing says so any more", is.Name)
	}
	if before.cordoned, after.cordoned = before.cordoned && before.ours, after.cordoned && after.ours; before == after {
		return // somebody else's change
	}
	h.steps[is.Name]++
	if l := lockOf(is); !l.whole() {
		h.violate(c.version, "law 1", "node %s bears a part of a lock: %+v", is.Name, l)
	}
	if others(was) != others(is) || !equality.Semantic.DeepEqual(foreign(was.Spec.Taints), foreign(is.Spec.Taints)) {
		h.violate(c.version, "others' taints and labels stay", "node %s changes with its lock", is.Name)
	}
	grant, granted := h.index.Grants[is.Name]
	switch {
	case before.tenant == after.tenant && before.since != "" && after.since != "" && before.since != after.since:
		h.violate(c.version, "a release goes on", "the release of node %s begins again", is.Name)
	case before.tenant == after.tenant:
	case before.tenant != "":
		h.leaves(c, is, before)
		if after.tenant == "" && granted && grant.Phase == allocate.Held {
			h.violate(c.version, "law 3", "node %s is without a lock for a moment on its way from %s to %s", is.Name, before.tenant, grant.Reservation)
		}
	}
	if after.tenant != "" && before.tenant != after.tenant && (!granted || grant.Phase != allocate.Held) {
		h.violate(c.version, "index first", "node %s is locked for %s; the index says %+v", is.Name, after.tenant, grant)
	}
}

// leaves: a tenant's lock goes after its last pod, and after the index says that its holder gave the node up.
func (h *history) leaves(c change, n *corev1.Node, before lock) {
	for key, p := range h.pods {
		if p.Spec.NodeName == n.Name && p.Namespace == before.tenant && active(p) {
			h.violate(c.version, "law 2", "node %s loses the lock of %s under pod %s", n.Name, before.tenant, key)
		}
	}
	if grant := h.index.Grants[n.Name]; grant.Phase == allocate.Held && grant.Reservation == before.reservation {
		h.violate(c.version, "law 2", "node %s loses the lock of %s, which has it", n.Name, before.tenant)
	}
}

func active(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

func others(n *corev1.Node) string {
	labels := map[string]string{}
	for key, value := range n.Labels {
		if key != v1alpha1.LabelTenant {
			labels[key] = value
		}
	}
	return fmt.Sprint(labels)
}

func foreign(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool {
		// The node controller and the API server write this one as the cordon comes and goes.
		return t.Key == v1alpha1.TaintKey || t.Key == corev1.TaintNodeUnschedulable
	})
}

func (h *history) pod(c change, is *corev1.Pod) {
	key := client.ObjectKeyFromObject(is)
	was := h.pods[key]
	if c.gone {
		delete(h.pods, key)
		return
	}
	h.pods[key] = is
	n := h.nodes[is.Spec.NodeName]
	if n != nil && is.DeletionTimestamp != nil && (was == nil || was.DeletionTimestamp == nil) && h.evicted[key] {
		if is.Namespace != evicting || lockOf(n).since == "" {
			h.violate(c.version, "nobody's job is yanked", "pod %s is evicted from node %s, which nobody asked for", key, n.Name)
		}
	}
	if n == nil || was != nil && was.UID == is.UID && was.Spec.NodeName == is.Spec.NodeName {
		return
	}
	switch l := lockOf(n); {
	case l.tenant != "" && l.tenant != is.Namespace:
		h.violate(c.version, "law 8", "pod %s comes to node %s of %s", key, n.Name, l.tenant)
	case l.since != "":
		h.violate(c.version, "a release lets nobody in", "pod %s comes to node %s, which is being released", key, n.Name)
	}
}

func (h *history) indexed(c change, m *corev1.ConfigMap) {
	next := allocate.Index{}
	if !c.gone {
		var err error
		if next, err = allocate.Parse(m.Data); err != nil {
			h.violate(c.version, "index", "it cannot be read: %v", err)
		}
	}
	for name, n := range h.nodes {
		if _, listed := next.Grants[name]; !listed && lockOf(n).tenant != "" {
			h.violate(c.version, "law 9", "the index forgets node %s, which bears a lock", name)
		}
	}
	h.index = next
}
