package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/node"
)

func TestWhatOfANodeWakesItsReconciler(t *testing.T) {
	ready := func(status corev1.ConditionStatus, beat time.Duration) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.NewTime(now.Add(beat))}}
		}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		wakes  bool
	}{
		"a heartbeat":                    {change: ready(corev1.ConditionTrue, time.Minute)},
		"what fits on it":                {change: func(n *corev1.Node) { n.Status.Allocatable = corev1.ResourceList{} }},
		"images":                         {change: func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}} }},
		"another label":                  {change: func(n *corev1.Node) { n.Labels["checked"] = "yes" }},
		"another taint":                  {change: func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "other"}) }},
		"a kubelet that does not answer": {change: ready(corev1.ConditionUnknown, 0), wakes: true},
		"our label":                      {change: func(n *corev1.Node) { n.Labels[v1alpha1.LabelTenant] = "beta" }, wakes: true},
		"our taint":                      {change: func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintKey, Value: "x"}} }, wakes: true},
		"our annotation":                 {change: func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationCordoned] = "alpha" }, wakes: true},
		"a cordon":                       {change: func(n *corev1.Node) { n.Spec.Unschedulable = true }, wakes: true},
		"its deletion":                   {change: func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: now} }, wakes: true},
		"another node of the same name":  {change: func(n *corev1.Node) { n.UID = "another" }, wakes: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-01", UID: "one", Labels: map[string]string{}, Annotations: map[string]string{}}}
			ready(corev1.ConditionTrue, 0)(before)
			after := before.DeepCopy()
			tc.change(after)
			require.Equal(t, tc.wakes, node.LockChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}))
		})
	}
}
