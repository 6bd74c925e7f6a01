package e2e

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/cluster"
)

func indexData(t require.TestingT) map[string]string {
	index := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: v1alpha1.OperatorNamespace, Name: v1alpha1.IndexName}
	require.NoError(t, shared.Client.Get(context.Background(), key, index))
	return index.Data
}

func TestEditedReservationAddsAndRemovesANode(t *testing.T) {
	nodes := ownNodes(t, 2)
	r := tenant(t, "edited", nodes[0])
	edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = nodes })
	eventually(t, func(c *assert.CollectT) {
		requireLocked(c, nodes[1], "edited", r.Name)
		require.Contains(c, indexData(c)["nodes"], "|"+nodes[1]+" edited|")
		require.Contains(c, indexData(c)["grants"], nodes[1]+" "+r.Name+"\n")
		require.EqualValues(c, 2, reservation(c, r.Name).Status.Reserved)
	})
	edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = nodes[:1] })
	eventually(t, func(c *assert.CollectT) {
		requireFree(c, nodes[1])
		require.NotContains(c, indexData(c)["nodes"], nodes[1])
		require.EqualValues(c, 1, reservation(c, r.Name).Status.Reserved)
	})
}

func TestReleaseWaitsForTheRunningPod(t *testing.T) {
	name := ownNodes(t, 1)[0]
	r := tenant(t, "patient", name)
	p := pod("patient", "training", name)
	require.Equal(t, name, running(t, p))

	edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = []string{} })
	eventually(t, func(c *assert.CollectT) {
		n := node(c, name)
		require.True(c, n.Spec.Unschedulable, "cordoned")
		require.Contains(c, n.Annotations, v1alpha1.AnnotationCordoned)
		require.Contains(c, n.Annotations, v1alpha1.AnnotationReleasingSince)
		status := reservation(c, r.Name).Status
		require.Len(c, status.Releasing, 1)
		require.EqualValues(c, 1, status.Releasing[0].PodsLeft)
		require.Contains(c, status.Releasing[0].WaitingFor, "patient/training")
	})

	// While it waits, others change the node's taints: an admin adds two, and takes one away again.
	_, err := shared.Kubectl(t.Context(), "taint", "node", name, "maintenance=soon:NoSchedule", "other=x:PreferNoSchedule")
	require.NoError(t, err)
	_, err = shared.Kubectl(t.Context(), "taint", "node", name, "other-")
	require.NoError(t, err)
	n := node(t, name)
	require.Equal(t, "patient", n.Labels[v1alpha1.LabelTenant], "the lock stays while the pod runs")
	require.Equal(t, []string{"reserved=patient:NoSchedule"}, ourTaints(n))

	before := patchesOf(t, name)
	finish(t, p)
	eventually(t, func(c *assert.CollectT) {
		requireFree(c, name)
		require.False(c, node(c, name).Spec.Unschedulable, "uncordoned")
	})
	require.Equal(t, before+1, patchesOf(t, name), "released in one patch")
	require.Contains(t, taintsOf(t, name), "maintenance=soon:NoSchedule")
	require.NotContains(t, taintsOf(t, name), "other=x:PreferNoSchedule")
}

func TestAdminsCordonSurvivesTheRelease(t *testing.T) {
	name := ownNodes(t, 1)[0]
	r := tenant(t, "cordoned", name)
	p := pod("cordoned", "training", name)
	running(t, p)
	_, err := shared.Kubectl(t.Context(), "cordon", name)
	require.NoError(t, err)
	edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = []string{} })
	eventually(t, func(c *assert.CollectT) {
		require.Contains(c, node(c, name).Annotations, v1alpha1.AnnotationReleasingSince)
	})
	finish(t, p)
	eventually(t, func(c *assert.CollectT) { requireFree(c, name) })
	require.True(t, node(t, name).Spec.Unschedulable, "still cordoned")
	_, err = shared.Kubectl(t.Context(), "uncordon", name)
	require.NoError(t, err)
}

func TestEvictOnReleaseEvictsAndRespectsABudget(t *testing.T) {
	name := ownNodes(t, 1)[0]
	r := tenant(t, "evicted", name)
	edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.EvictOnRelease = true })
	p := pod("evicted", "training", name)
	p.Labels = map[string]string{"app": "training"}
	running(t, p)
	_, err := shared.Kubectl(t.Context(), "create", "poddisruptionbudget", "all-of-it", "-n", "evicted",
		"--selector=app=training", "--min-available=1")
	require.NoError(t, err)

	edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = []string{} })
	eventually(t, func(c *assert.CollectT) {
		status := reservation(c, r.Name).Status
		require.Len(c, status.Releasing, 1)
		require.Contains(c, status.Releasing[0].WaitingFor, "The disruption budget all-of-it")
	})
	require.Equal(t, "evicted", node(t, name).Labels[v1alpha1.LabelTenant])

	_, err = shared.Kubectl(t.Context(), "delete", "poddisruptionbudget", "all-of-it", "-n", "evicted")
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) { requireFree(c, name) })
}

func TestDeletedReservationGetsTheSameDrain(t *testing.T) {
	name := ownNodes(t, 1)[0]
	r := tenant(t, "deleted", name)
	p := pod("deleted", "training", name)
	running(t, p)
	require.NoError(t, shared.Client.Delete(t.Context(), r))
	eventually(t, func(c *assert.CollectT) { require.True(c, node(c, name).Spec.Unschedulable) })
	require.Equal(t, "deleted", node(t, name).Labels[v1alpha1.LabelTenant])
	require.NotNil(t, reservation(t, r.Name).DeletionTimestamp)
	finish(t, p)
	eventually(t, func(c *assert.CollectT) { requireFree(c, name) })
	deleteReservation(t, r.Name) // it is gone
}

func TestHandoverBetweenTenantsIsOnePatch(t *testing.T) {
	name := ownNodes(t, 1)[0]
	from := tenant(t, "hand-from", name)
	p := pod("hand-from", "training", name)
	running(t, p)
	to := tenant(t, "hand-to")
	before := patchesOf(t, name)
	edit(t, from.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = []string{} })
	edit(t, to.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = []string{name} })
	eventually(t, func(c *assert.CollectT) {
		pending := reservation(c, to.Name).Status.Pending
		require.Equal(c, []v1alpha1.PendingNode{{Name: name, Reason: v1alpha1.PendingReleasingFrom, By: "hand-from"}}, pending)
		require.Contains(c, node(c, name).Annotations, v1alpha1.AnnotationReleasingSince)
	})
	finish(t, p)
	eventually(t, func(c *assert.CollectT) { requireLocked(c, name, "hand-to", to.Name) })
	require.Equal(t, before+2, patchesOf(t, name), "one patch to cordon, one to hand over")
	require.False(t, node(t, name).Spec.Unschedulable)
}

func TestSelectorReservesNodesAsTheyComeAndGo(t *testing.T) {
	name := ownNodes(t, 1)[0]
	r := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "pool-reservation"},
		Spec: v1alpha1.ReservationSpec{Tenant: "pool", NodeSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"e2e-pool": "pool"},
		}},
	}
	create(t, r)
	_, err := shared.Kubectl(t.Context(), "label", "node", name, "e2e-pool=pool")
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) { requireLocked(c, name, "pool", r.Name) })
	_, err = shared.Kubectl(t.Context(), "label", "node", name, "e2e-pool-")
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) { requireFree(c, name) })
}

// patchesOf counts the operator's writes to a node so far.
func patchesOf(t require.TestingT, name string) int {
	return count(t, func(w cluster.Write) bool { return w.Resource == "nodes" && w.Name == name })
}

func count(t require.TestingT, match func(cluster.Write) bool) int {
	writes, err := shared.Writes()
	require.NoError(t, err)
	n := 0
	for _, w := range writes {
		if match(w) {
			n++
		}
	}
	return n
}

func taintsOf(t require.TestingT, name string) []string {
	var taints []string
	for _, taint := range node(t, name).Spec.Taints {
		taints = append(taints, taint.ToString())
	}
	return taints
}
