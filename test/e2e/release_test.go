package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// A node whose pods a budget holds keeps neither its neighbour nor another tenant's node from being released.
func TestCases_A24_ABlockedNodeHoldsUpNoOther(t *testing.T) {
	nodes := ownNodes(t, 3)
	r := tenant(t, "held-up", nodes[:2]...)
	other := tenant(t, "unhindered", nodes[2])
	for _, name := range []string{r.Name, other.Name} {
		edit(t, name, func(r *v1alpha1.Reservation) { r.Spec.EvictOnRelease = true })
	}
	held := pod("held-up", "held", nodes[0])
	held.Labels = map[string]string{"app": "held"}
	running(t, held)
	running(t, pod("held-up", "free", nodes[1]))
	running(t, pod("unhindered", "free", nodes[2]))
	_, err := shared.Kubectl(t.Context(), "create", "poddisruptionbudget", "keep", "-n", "held-up", "--selector=app=held", "--min-available=1")
	require.NoError(t, err)
	t.Cleanup(func() { // before the namespace's other things, so that the node comes free
		_, _ = shared.Kubectl(context.Background(), "delete", "poddisruptionbudget", "keep", "-n", "held-up", "--ignore-not-found")
	})

	for _, name := range []string{r.Name, other.Name} {
		edit(t, name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = []string{} })
	}
	eventually(t, func(c *assert.CollectT) {
		requireFree(c, nodes[1])
		requireFree(c, nodes[2])
		status := reservation(c, r.Name).Status
		require.Len(c, status.Releasing, 1)
		require.Equal(c, nodes[0], status.Releasing[0].Name)
		require.Contains(c, status.Releasing[0].WaitingFor, "The disruption budget keep")
	})
	require.Equal(t, "held-up", node(t, nodes[0]).Labels[v1alpha1.LabelTenant])
}

// Two nodes are released at once, and their pods evicted. What takes the pods' place is let onto neither of them, by the
// scheduler or by whoever binds with an old picture of the cluster.
func TestCases_A27_NoPodLandsOnANodeThatIsBeingReleased(t *testing.T) {
	nodes := ownNodes(t, 3)
	r := tenant(t, "hopping", nodes[:2]...)
	edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.EvictOnRelease = true })
	labels := map[string]string{"app": "worker"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("hopping", "worker", "").Spec}
	template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
	}}
	// They take their time to end, so that both nodes are still being released when somebody binds to one.
	template.Annotations = map[string]string{controlplane.LingerAnnotation: "true"}
	template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
	const replicas = 6
	workers := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hopping", Name: "worker"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](replicas), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
	create(t, workers)
	t.Cleanup(func() { // nobody collects the namespace's pods before the next test
		require.NoError(t, shared.Client.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace("hopping")))
	})
	before := map[string]string{} // by pod, where it ran
	eventually(t, func(c *assert.CollectT) {
		var pods corev1.PodList
		require.NoError(c, shared.Client.List(t.Context(), &pods, client.InNamespace("hopping")))
		clear(before)
		used := map[string]bool{}
		for _, p := range pods.Items {
			require.Equal(c, corev1.PodRunning, p.Status.Phase)
			before[p.Name], used[p.Spec.NodeName] = p.Spec.NodeName, true
		}
		require.Len(c, before, replicas)
		require.Len(c, used, 2)
	})
	late := pod("hopping", "late", "")
	late.Spec.SchedulerName = "nobody"
	create(t, late)

	watching, err := client.NewWithWatch(shared.Config, client.Options{Scheme: shared.Client.Scheme()})
	require.NoError(t, err)
	seen, err := watching.Watch(t.Context(), &corev1.PodList{}, client.InNamespace("hopping"))
	require.NoError(t, err)
	defer seen.Stop()
	edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = nodes[2:] })
	eventually(t, func(c *assert.CollectT) {
		require.Contains(c, node(c, nodes[0]).Annotations, v1alpha1.AnnotationReleasingSince)
	})
	time.Sleep(300 * time.Millisecond) // the age of the picture that binds
	err = shared.Client.SubResource("binding").Create(t.Context(), late, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: nodes[0]}})
	require.True(t, apierrors.IsForbidden(err), "refused by the fence: %v", err)
	require.Contains(t, node(t, nodes[0]).Annotations, v1alpha1.AnnotationReleasingSince, "and not because it is over")

	arrived := map[string]string{} // by pod that is new, where it runs
	deadline := time.After(patience)
	for running := 0; running < replicas; {
		select {
		case e := <-seen.ResultChan():
			p, ok := e.Object.(*corev1.Pod)
			require.True(t, ok, "%v", e)
			if _, old := before[p.Name]; old || e.Type == watch.Deleted || p.Spec.NodeName == "" {
				continue
			}
			require.Equal(t, nodes[2], p.Spec.NodeName, "pod %s hopped to a node that is being released", p.Name)
			if arrived[p.Name] == "" && p.Status.Phase == corev1.PodRunning {
				arrived[p.Name] = p.Spec.NodeName
				running++
			}
		case <-deadline:
			require.FailNow(t, "the workers did not come back", "%v", arrived)
		}
	}
	eventually(t, func(c *assert.CollectT) {
		requireFree(c, nodes[0])
		requireFree(c, nodes[1])
		requireLocked(c, nodes[2], "hopping", r.Name)
	})
}

// Who cordoned a node, and who has yet to initialise it, is told apart, and their marks outlive the release.
func TestCases_A16_WhatTakesNoPodsIsToldApart(t *testing.T) {
	nodes := ownNodes(t, 3)
	_, err := shared.Kubectl(t.Context(), "cordon", nodes[0])
	require.NoError(t, err)
	const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	_, err = shared.Kubectl(t.Context(), "taint", "node", nodes[2], uninitialized+"=true:NoSchedule")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := shared.Kubectl(context.Background(), "uncordon", nodes[0])
		require.NoError(t, err)
	})
	r := tenant(t, "half-usable", nodes...)
	eventually(t, func(c *assert.CollectT) {
		status := reservation(c, r.Name).Status
		require.EqualValues(c, 3, status.Reserved)
		require.EqualValues(c, 2, status.Counts.Unschedulable)
		require.Contains(c, ready(status.Conditions).Message, "2 of them cordoned by somebody else or not initialised yet")
	})

	edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = nodes[2:] })
	eventually(t, func(c *assert.CollectT) {
		requireFree(c, nodes[0])
		require.EqualValues(c, 1, reservation(c, r.Name).Status.Counts.Unschedulable)
	})
	require.True(t, node(t, nodes[0]).Spec.Unschedulable, "still cordoned")
	require.Contains(t, taintsOf(t, nodes[2]), uninitialized+"=true:NoSchedule")

	_, err = shared.Kubectl(t.Context(), "taint", "node", nodes[2], uninitialized+"-")
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) { require.Zero(c, reservation(c, r.Name).Status.Counts.Unschedulable) })
}

// A kubelet that restarts looks anew at whether its node bears what its pods demand (kubernetes #99708, #123980). kwok
// does not look, so this compares the two before and after its restart in the middle of a release.
func TestLessons_B10_WhatAPodDemandsOutlivesItsKubeletsRestart(t *testing.T) {
	name := ownNodes(t, 1)[0]
	r := tenant(t, "restarted", name)
	p := pod("restarted", "training", name)
	running(t, p)
	demands := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
	require.Equal(t, v1alpha1.LabelTenant, demands.Key)
	admits := func() bool { return slices.Contains(demands.Values, node(t, name).Labels[demands.Key]) }
	edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = []string{} })
	eventually(t, func(c *assert.CollectT) {
		require.Contains(c, node(c, name).Annotations, v1alpha1.AnnotationReleasingSince)
	})

	require.NoError(t, shared.KillComponent(controlplane.Kwok))
	require.True(t, admits())
	// A kubelet keeps its name over a restart and its node's lease with it; kwok takes a new name.
	_, err := shared.Kubectl(t.Context(), "delete", "leases", "--all", "-n", corev1.NamespaceNodeLease)
	require.NoError(t, err)
	require.NoError(t, shared.StartComponent(controlplane.Kwok))
	settle(t)
	require.True(t, admits())
	finish(t, p)
	eventually(t, func(c *assert.CollectT) { requireFree(c, name) })
	require.False(t, admits())
}
