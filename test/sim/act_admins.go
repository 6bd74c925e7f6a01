package sim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// adminActs are what admins and other controllers do to nodes.
var adminActs = []act{
	{"cordon", 20, func(w *world, d dice) string {
		name := w.aNode(d)
		edit(w.server, nodes, name, func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable && d.in(2) })
		return name + " or uncordons it"
	}},
	{"pool", 12, func(w *world, d dice) string {
		name, pool := w.aNode(d), d.one("a", "b")
		edit(w.server, nodes, name, func(n *corev1.Node) { n.Labels["pool"] = pool })
		return name + " is in pool " + pool
	}},
	{"other taint", 8, func(w *world, d dice) string { return w.toggleTaint(d, "other", fmt.Sprint(d.IntN(9))) }},
	{"same key", 4, func(w *world, d dice) string {
		name := w.aNode(d)
		taint := corev1.Taint{Key: v1alpha1.TaintKey, Value: d.one("old", "t0"), Effect: corev1.TaintEffect(d.one("NoSchedule", "NoExecute"))}
		edit(w.server, nodes, name, func(n *corev1.Node) {
			n.Spec.Taints = without(n.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == taint.Key && t.Effect == taint.Effect && t.ToString() != w.truth.of(n).taint
			})
			for _, t := range n.Spec.Taints {
				if t.Key == taint.Key && t.Effect == taint.Effect {
					return
				}
			}
			if d.in(2) {
				n.Spec.Taints = append(n.Spec.Taints, taint)
			}
		})
		return fmt.Sprintf("%s bears %s, or no longer", name, taint.ToString())
	}},
	{"take off", 5, func(w *world, d dice) string {
		name := w.aNode(d)
		edit(w.server, nodes, name, func(n *corev1.Node) { takeOff(d, n) })
		return "a part of the lock of " + name
	}},
	{"remover", 2, func(w *world, d dice) string {
		name := w.aNode(d)
		w.removers[name] = !w.removers[name] && d.in(2)
		return fmt.Sprintf("of the label of %s: %v", name, w.removers[name])
	}},
	{"remove", 12, func(w *world, d dice) string {
		name := w.aNode(d)
		if !w.removers[name] {
			return "nothing"
		}
		edit(w.server, nodes, name, func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelTenant) })
		return "the label of " + name
	}},
}

// takeOff takes a part of a lock off by hand.
func takeOff(d dice, n *corev1.Node) {
	switch d.IntN(4) {
	case 0:
		delete(n.Labels, v1alpha1.LabelTenant)
	case 1:
		n.Spec.Taints = without(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintKey })
	case 2:
		delete(n.Annotations, d.one(v1alpha1.AnnotationReservation, v1alpha1.AnnotationTaintEffect, v1alpha1.AnnotationReleasingSince, v1alpha1.AnnotationCordoned))
	default:
		delete(n.Labels, v1alpha1.LabelTenant)
		n.Spec.Taints = without(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintKey })
		for _, key := range []string{v1alpha1.AnnotationReservation, v1alpha1.AnnotationTaintEffect, v1alpha1.AnnotationReleasingSince, v1alpha1.AnnotationCordoned} {
			delete(n.Annotations, key)
		}
	}
}
