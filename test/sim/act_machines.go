package sim

import (
	corev1 "k8s.io/api/core/v1"
)

// machineActs are what kubelets and the autoscaler do.
var machineActs = []act{
	{"pod ends", 35, func(w *world, d dice) string {
		name, _ := pick(d, w.server.names(pods))
		return w.endPod(name, d.one("Succeeded", "Failed", "gone"))
	}},
	{"pod runs", 10, func(w *world, d dice) string {
		name, _ := pick(d, w.server.names(pods))
		edit(w.server, pods, name, func(p *corev1.Pod) {
			if p.Status.Phase == corev1.PodPending {
				p.Status.Phase = corev1.PodRunning
			}
		})
		return name
	}},
	{"kubelet", 14, func(w *world, d dice) string {
		name := w.aNode(d)
		edit(w.server, nodes, name, func(n *corev1.Node) {
			ready := &n.Status.Conditions[0]
			if ready.Status == corev1.ConditionTrue && d.in(3) {
				ready.Status = corev1.ConditionUnknown
			} else {
				ready.Status = corev1.ConditionTrue
			}
		})
		return name + " is out of touch, or back"
	}},
	{"heartbeat", 8, func(w *world, d dice) string {
		name := w.aNode(d)
		edit(w.server, nodes, name, func(n *corev1.Node) { n.Status.NodeInfo.BootID = w.Now().String() })
		return name
	}},
	{"node goes", 5, func(w *world, d dice) string {
		name := w.aNode(d)
		w.server.remove(nil, nodes, name)
		return name
	}},
	{"node comes", 22, func(w *world, d dice) string {
		name := w.aNode(d)
		if w.server.node(name) == nil {
			w.join(d, name)
		}
		return name
	}},
	{"scale down", 6, func(w *world, d dice) string { return w.toggleTaint(d, "ToBeDeletedByClusterAutoscaler", "1") }},
	{"start up", 6, func(w *world, d dice) string {
		return w.toggleTaint(d, "node.cloudprovider.kubernetes.io/uninitialized", "true")
	}},
	{"switch off", 2, func(w *world, d dice) string {
		return w.toggleTaint(d, corev1.TaintNodeOutOfService, "nodeshutdown")
	}},
}

// endPod is the end of a pod's containers. Without a kubelet nobody says so; without a Node the pod is collected.
func (w *world) endPod(name, how string) string {
	p := stored[*corev1.Pod](w.server, pods, name)
	if p == nil {
		return "none"
	}
	if n := w.server.node(p.Spec.NodeName); n != nil && unreachable(n) {
		return name + " cannot tell"
	}
	if how != "gone" && p.DeletionTimestamp.IsZero() || len(p.Finalizers) > 0 {
		if how == "gone" {
			how = string(corev1.PodSucceeded)
		}
		edit(w.server, pods, name, func(p *corev1.Pod) {
			if active(p) {
				p.Status.Phase = corev1.PodPhase(how)
			}
		})
		return name + " " + how
	}
	w.server.remove(nil, pods, name)
	return name + " is gone"
}

// toggleTaint adds a taint of somebody else's, or takes it off again.
func (w *world) toggleTaint(d dice, key, value string) string {
	node := w.aNode(d)
	edit(w.server, nodes, node, func(n *corev1.Node) {
		rest := without(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
		if len(rest) == len(n.Spec.Taints) && d.in(3) {
			rest = append(rest, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule})
		}
		n.Spec.Taints = rest
	})
	return node
}
