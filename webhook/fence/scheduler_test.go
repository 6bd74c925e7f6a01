package fence_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// scheduled has the real scheduler place the pod, on a node of this test, with so many GPUs of the node's eight.
func scheduled(gpus string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.SchedulerName = corev1.DefaultSchedulerName
		s.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}
	}
}

func createNode(t *testing.T, name, tenant string) {
	t.Helper()
	c := cluster(t)
	node := controlplane.Node(name, nil)
	if tenant != "" {
		node.Labels["reserved.tenant"] = tenant
		node.Spec.Taints = []corev1.Taint{{Key: "reserved", Value: tenant, Effect: corev1.TaintEffectNoSchedule}}
	}
	require.NoError(t, c.Create(t.Context(), node))
	t.Cleanup(func() { assert.NoError(t, c.Delete(after(t), node)) })
	eventually(t, func(ct *assert.CollectT) {
		require.NoError(ct, c.Get(t.Context(), client.ObjectKeyFromObject(node), node))
		for _, taint := range node.Spec.Taints {
			assert.Equal(ct, "reserved", taint.Key) // the others go when the kubelet says Ready
		}
	})
}

func create(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	require.NoError(t, cluster(t).Create(t.Context(), p))
	t.Cleanup(func() { _ = cluster(t).Delete(after(t), p, client.GracePeriodSeconds(0)) })
	return p
}

func awaitRunning(t *testing.T, p *corev1.Pod) {
	t.Helper()
	eventually(t, func(ct *assert.CollectT) {
		require.NoError(ct, cluster(t).Get(t.Context(), client.ObjectKeyFromObject(p), p))
		assert.Equal(ct, corev1.PodRunning, p.Status.Phase, "%v", p.Status.Conditions)
	})
}

func TestPodsThatTolerateEverythingRunOnFreeNodesAtOnceAndPreemptNobody(t *testing.T) {
	c := cluster(t)
	tenant, foreign := namespace(t), namespace(t)
	createNode(t, "keep-reserved", tenant)
	createNode(t, "keep-free", "")
	grant(t, map[string][]string{"keep-reserved": {tenant}})
	bind(t, tenant)
	priority := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "higher"}, Value: 1_000_000}
	require.NoError(t, c.Create(t.Context(), priority))
	t.Cleanup(func() { assert.NoError(t, c.Delete(after(t), priority)) })

	// A tenant's pod as the webhook would make it, filling the reserved node.
	tenants := create(t, pod(tenant, scheduled("8"),
		tolerating(corev1.Toleration{Key: "reserved", Value: tenant, Effect: corev1.TaintEffectNoSchedule}),
		required(term(corev1.NodeSelectorRequirement{Key: "reserved.tenant", Operator: corev1.NodeSelectorOpIn, Values: []string{tenant}}))))
	awaitRunning(t, tenants)
	require.Equal(t, "keep-reserved", tenants.Spec.NodeName)

	begin := time.Now()
	fitting := create(t, pod(foreign, scheduled("8"), tolerating(wildcard)))
	awaitRunning(t, fitting)
	require.Equal(t, "keep-free", fitting.Spec.NodeName)
	t.Logf("running after %s", time.Since(begin).Round(time.Millisecond))

	// Now no node has room. The one with priority may preempt the other foreign pod, never the tenant's.
	higher := create(t, pod(foreign, scheduled("8"), tolerating(wildcard), func(s *corev1.PodSpec) {
		s.PriorityClassName = priority.Name
	}))
	awaitRunning(t, higher)
	require.Equal(t, "keep-free", higher.Spec.NodeName)

	another := create(t, pod(foreign, scheduled("8"), tolerating(wildcard), func(s *corev1.PodSpec) {
		s.PriorityClassName = priority.Name
	}))
	eventually(t, func(ct *assert.CollectT) {
		require.NoError(ct, c.Get(t.Context(), client.ObjectKeyFromObject(another), another))
		require.NotEmpty(ct, another.Status.Conditions)
		assert.Contains(ct, another.Status.Conditions[0].Message, "didn't match Pod's node affinity")
	})
	require.Empty(t, another.Status.NominatedNodeName)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(tenants), tenants))
	require.Nil(t, tenants.DeletionTimestamp)
	require.Equal(t, corev1.PodRunning, tenants.Status.Phase)
}

// The pods of a DaemonSet that tolerates everything: on free nodes they run, for reserved ones they wait, and their
// controller makes no others.
func TestADaemonSetThatToleratesEverythingWaitsForReservedNodes(t *testing.T) {
	c := cluster(t)
	tenant, foreign := namespace(t), namespace(t)
	createNode(t, "daemon-reserved", tenant)
	createNode(t, "daemon-free", "")
	grant(t, map[string][]string{"daemon-reserved": {tenant}})
	set := daemonSet(foreign)
	require.NoError(t, c.Create(t.Context(), set))
	t.Cleanup(func() {
		assert.NoError(t, c.Delete(after(t), set, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	})

	uids := map[string]bool{}
	look := func(ct require.TestingT) map[corev1.PodPhase]int {
		var pods corev1.PodList
		require.NoError(ct, c.List(t.Context(), &pods, client.InNamespace(foreign)))
		phases := map[corev1.PodPhase]int{}
		for _, p := range pods.Items {
			uids[string(p.UID)] = true
			phases[p.Status.Phase]++
		}
		return phases
	}
	eventually(t, func(ct *assert.CollectT) {
		assert.Equal(ct, map[corev1.PodPhase]int{corev1.PodRunning: 1, corev1.PodPending: 1}, look(ct))
	})
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		look(t)
	}
	require.Len(t, uids, 2)
}

func daemonSet(namespace string) *appsv1.DaemonSet {
	template := pod(namespace, tolerating(wildcard))
	template.Spec.SchedulerName = corev1.DefaultSchedulerName
	labels := map[string]string{"app": "daemon"}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "daemon"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template.Spec},
		},
	}
}
