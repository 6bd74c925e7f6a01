package sim

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// tenantActs are what tenants do, and the scheduler for them.
var tenantActs = []act{
	{"schedule", 150, (*world).schedule},
	{"delete pod", 14, func(w *world, d dice) string {
		name, _ := pick(d, w.server.names(pods))
		w.server.delete(nil, pods, name, nil)
		return name
	}},
	{"replace pod", 20, func(w *world, d dice) string {
		name, ok := pick(d, w.interesting())
		if !ok {
			return "none"
		}
		p := stored[*corev1.Pod](w.server, pods, name).DeepCopy()
		w.server.remove(nil, pods, name)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = nil, nil, nil
		p.Status.Phase = corev1.PodRunning
		to := w.aNode(d)
		if n := w.server.node(to); n == nil || n.Spec.Unschedulable || !w.admits(n, p) {
			to = ""
		}
		p.Spec.NodeName = to
		w.server.put(nil, p)
		w.truth.bound(p)
		return fmt.Sprintf("%s, now on %q", name, to)
	}},
	{"hold pod", 6, func(w *world, d dice) string {
		name, _ := pick(d, w.server.names(pods))
		edit(w.server, pods, name, func(p *corev1.Pod) { p.Finalizers = []string{"tenant/hold"} })
		return name + " gets a finalizer"
	}},
	{"free pod", 6, func(w *world, d dice) string {
		name, _ := pick(d, w.server.names(pods))
		w.freePod(name)
		return name + " loses its finalizers"
	}},
	{"budget", 12, func(w *world, d dice) string {
		namespace, name := d.one("t0", "t1", "t2"), d.one("pdb-0", "pdb-1")
		if w.server.get(budgets, keyFor(namespace, name)) != nil {
			w.server.remove(nil, budgets, keyFor(namespace, name))
			return "no " + name + " in " + namespace
		}
		w.server.put(nil, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": d.one("x", "y")}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(d.IntN(3) - 1)},
		})
		return name + " in " + namespace
	}},
	{"daemon set", 8, func(w *world, d dice) string {
		namespace := d.one("t0", "t1", "kube-system")
		if w.server.get(daemons, keyFor(namespace, "ds")) != nil {
			w.server.remove(nil, daemons, keyFor(namespace, "ds"))
			return "no longer in " + namespace
		}
		w.server.put(nil, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ds"}})
		return "in " + namespace
	}},
}

// schedule makes a pod and binds it, if scheduler and fence let it. The scheduler's own cache may be behind.
func (w *world) schedule(d dice) string {
	node := w.aNode(d)
	if w.truth.nodes[node] == nil || w.truth.nodes[node].lock == "" {
		node = w.aNode(d) // reserved nodes are where the work is
	}
	n := w.server.node(node)
	p := w.aPod(d, n)
	stale := d.in(4)
	if n == nil || unreachable(n) || !stale && !wouldSchedule(n, p) || !w.admits(n, p) || w.server.get(pods, keyOf(p)) != nil {
		return fmt.Sprintf("%s does not come to %s", keyOf(p), node)
	}
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodPhase(d.one("Running", "Running", "Running", "Pending"))
	w.server.put(nil, p)
	w.truth.bound(p)
	return fmt.Sprintf("%s comes to %s", keyOf(p), node)
}

// aPod is a tenant's own pod, one of its DaemonSet, one that claims to be a mirror pod, a plain one of another
// namespace that tolerates everything, or one of the cluster's own.
func (w *world) aPod(d dice, n *corev1.Node) *corev1.Pod {
	tenant := d.one("t0", "t1", "t2", "other")
	if n != nil && n.Labels[v1alpha1.LabelTenant] != "" && !d.in(4) {
		tenant = n.Labels[v1alpha1.LabelTenant]
	}
	namespace := tenant
	if d.in(5) {
		namespace = d.one(tenant+"-b", "shared")
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("p%d", d.IntN(12)), Labels: map[string]string{"app": d.one("x", "y", "z")}},
	}
	if d.in(5) {
		p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(d.IntN(7200)))
	}
	switch i := d.IntN(12); {
	case i < 7 && tenant != "other":
		inject(p, tenant)
	case i == 7:
		p.Namespace = d.one("t0", "t1", "kube-system")
		p.Name = fmt.Sprintf("ds-%d", d.IntN(3))
		p.OwnerReferences = owned("apps/v1", "DaemonSet", "ds", "gone")
		if set := w.server.get(daemons, keyFor(p.Namespace, "ds")); set != nil && !d.in(4) {
			p.OwnerReferences[0].UID = set.GetUID()
		}
		if p.Namespace != metav1.NamespaceSystem {
			inject(p, p.Namespace)
			p.Spec.Affinity = nil // a DaemonSet's pod gets the toleration alone
		}
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	case i == 8:
		p.Name = fmt.Sprintf("m-%d", d.IntN(3))
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		p.OwnerReferences = owned("v1", "Node", "n0", "another")
		if n != nil && d.in(2) {
			p.Namespace, p.OwnerReferences = metav1.NamespaceSystem, owned("v1", "Node", n.Name, n.UID)
		}
	case i == 9:
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	return p
}

func owned(version, kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
}

// inject is what admission does to a pod of a bound namespace.
func inject(p *corev1.Pod, tenant string) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: v1alpha1.LabelTenant, Operator: corev1.NodeSelectorOpIn, Values: []string{tenant}},
		}}},
	}}}
	p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: v1alpha1.TaintKey, Operator: corev1.TolerationOpEqual, Value: tenant})
}

// wouldSchedule is what a scheduler with a fresh cache says.
func wouldSchedule(n *corev1.Node, p *corev1.Pod) bool {
	if n.Spec.Unschedulable {
		return false
	}
	if a := p.Spec.Affinity; a != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			if !slices.Contains(term.MatchExpressions[0].Values, n.Labels[v1alpha1.LabelTenant]) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Operator == corev1.TolerationOpExists && t.Key == "" || t.Key == taint.Key && t.Value == taint.Value && (t.Effect == "" || t.Effect == taint.Effect)
		})
	})
}

// admits is what the fence says of a pod on a node; kube-system passes.
func (w *world) admits(n *corev1.Node, p *corev1.Pod) bool {
	return p.Namespace == metav1.NamespaceSystem || w.fence.accepts(n.Name, p.Namespace)
}

// interesting are the pods on nodes that somebody is working at, or all.
func (w *world) interesting() []string {
	var names []string
	for _, key := range w.leader().underWay() {
		for _, p := range w.server.podsOn(strings.TrimPrefix(key, "node/")) {
			names = append(names, keyOf(p))
		}
	}
	if len(names) == 0 {
		return w.server.names(pods)
	}
	return names
}

// freePod takes the finalizers off a pod; one that only they kept is gone.
func (w *world) freePod(name string) {
	p := stored[*corev1.Pod](w.server, pods, name)
	if p == nil || len(p.Finalizers) == 0 {
		return
	}
	if !p.DeletionTimestamp.IsZero() && !active(p) {
		w.server.remove(nil, pods, name)
		return
	}
	edit(w.server, pods, name, func(p *corev1.Pod) { p.Finalizers = nil })
}
