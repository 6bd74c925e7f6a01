package sim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// describe says of an object what the laws are about.
func describe(o client.Object, gone bool) string {
	if gone {
		return keyOf(o) + ": gone"
	}
	switch o := o.(type) {
	case *corev1.Node:
		taints := ""
		for _, t := range o.Spec.Taints {
			taints += " " + t.ToString()
		}
		return fmt.Sprintf("%s: tenant %q, marks %q, taints%s, unschedulable %v", o.Name, o.Labels[v1alpha1.LabelTenant], marks(o), taints, o.Spec.Unschedulable)
	case *v1alpha1.Reservation:
		text := fmt.Sprintf("%s: finalizers %v, generation %d of %d, nodes %v, reserved %d", o.Name, o.Finalizers,
			o.Status.ObservedGeneration, o.Generation, o.Status.Nodes, o.Status.Reserved)
		for _, n := range o.Status.Releasing {
			text += fmt.Sprintf(", %s %s", n.Name, n.WaitingFor)
		}
		for _, c := range o.Status.Conditions {
			text += fmt.Sprintf(", %s %s", c.Type, c.Reason)
		}
		return text
	case *corev1.ConfigMap:
		return fmt.Sprintf("%q %q", o.Data[allocate.KeyGrants], o.Data[allocate.KeyNodes])
	case *corev1.Pod:
		return fmt.Sprintf("%s on %s: %s, ending %v", keyOf(o), o.Spec.NodeName, o.Status.Phase, !o.DeletionTimestamp.IsZero())
	}
	return keyOf(o)
}
