package controlplane_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

func TestDeploymentRunsOnThreeNodes(t *testing.T) {
	withNodes(t, "spread-01", "spread-02", "spread-03")
	template := pod("spread", 8) // a whole node each
	deployments := client(t).AppsV1().Deployments(metav1.NamespaceDefault)
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "spread"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](3),
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) {
		live, err := deployments.Get(t.Context(), "spread", metav1.GetOptions{})
		require.NoError(c, err)
		assert.EqualValues(c, 3, live.Status.ReadyReplicas)
	})

	require.NoError(t, deployments.Delete(t.Context(), "spread",
		metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
	eventually(t, func(c *assert.CollectT) {
		left, err := client(t).CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "app=spread"})
		require.NoError(c, err)
		assert.Empty(c, left.Items)
	})
}

func TestAnnotatedPodCompletes(t *testing.T) {
	withNodes(t, "complete-01")
	runPod(t, pod("complete", 1))
	pods := client(t).CoreV1().Pods(metav1.NamespaceDefault)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, controlplane.CompleteAnnotation)
	_, err := pods.Patch(t.Context(), "complete", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) {
		live, err := pods.Get(t.Context(), "complete", metav1.GetOptions{})
		require.NoError(c, err)
		assert.Equal(c, corev1.PodSucceeded, live.Status.Phase)
		require.Len(c, live.Status.ContainerStatuses, 1)
		assert.NotNil(c, live.Status.ContainerStatuses[0].State.Terminated)
		assert.Nil(c, live.Status.ContainerStatuses[0].State.Running)
	})
	deletePod(t, "complete")
}

func TestDeletedPodGoes(t *testing.T) {
	withNodes(t, "delete-01")
	runPod(t, pod("delete", 1))
	deletePod(t, "delete")
}

func TestLingeringPodUsesItsGracePeriod(t *testing.T) {
	withNodes(t, "linger-01")
	lingering, prompt := pod("linger", 1), pod("prompt", 1)
	lingering.Annotations = map[string]string{controlplane.LingerAnnotation: "true"}
	lingering.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600)
	runPod(t, lingering)
	runPod(t, prompt)

	pods := client(t).CoreV1().Pods(metav1.NamespaceDefault)
	require.NoError(t, pods.Delete(t.Context(), "linger", metav1.DeleteOptions{}))
	deletePod(t, "prompt") // kwok has seen both deletions when this one is done
	live, err := pods.Get(t.Context(), "linger", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotNil(t, live.DeletionTimestamp)

	require.NoError(t, pods.Delete(t.Context(), "linger", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)}))
	awaitGone(t, "linger")
}

func deletePod(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, client(t).CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), name, metav1.DeleteOptions{}))
	awaitGone(t, name)
}

func awaitGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		_, err := client(t).CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		assert.True(c, apierrors.IsNotFound(err), "got %v", err)
	})
}
