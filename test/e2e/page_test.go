package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// TestPage walks the page (spec.md) from top to bottom, with its own YAML and its own commands.
func TestPage(t *testing.T) {
	namespace(t, "tenant-foo")
	namespace(t, "tenant-bar")
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := shared.Kubectl(t.Context(), args...)
		require.NoError(t, err)
		return out
	}
	// What a person types into the editor, as a sed script for the lines of spec.reservedNodes.
	kubectlEdit := func(script string) {
		t.Helper()
		editor := filepath.Join(t.TempDir(), "editor")
		text := "#!/bin/sh\nexec sed -i '/^  reservedNodes:/,/^  [a-zA-Z]/{ " + script + " }' \"$1\"\n"
		require.NoError(t, os.WriteFile(editor, []byte(text), 0o700))
		t.Setenv("KUBE_EDITOR", editor)
		require.Contains(t, kubectl("edit", "reservation", "tenant-foo-reservation"), "edited")
	}
	t.Cleanup(func() {
		deleteReservation(t, "tenant-foo-reservation")
		deleteReservation(t, "tenant-bar-reservation")
	})

	// Reservation example: label and taint on every reserved node, and on no other.
	kubectl("apply", "-f", "testdata/page/reservation.yaml")
	eventually(t, func(c *assert.CollectT) {
		for _, name := range []string{"gpu-01", "gpu-02", "gpu-03", "gpu-04"} {
			requireLocked(c, name, "tenant-foo", "tenant-foo-reservation")
		}
	})
	requireFree(t, "gpu-05")

	// ReservationBinding example.
	kubectl("apply", "-f", "testdata/page/reservationbinding.yaml")
	eventually(t, func(c *assert.CollectT) {
		b := &v1alpha1.ReservationBinding{}
		key := types.NamespacedName{Namespace: "tenant-foo", Name: "tenant-foo-binding"}
		require.NoError(c, shared.Client.Get(t.Context(), key, b))
		require.Equal(c, metav1.ConditionTrue, ready(b.Status.Conditions).Status, ready(b.Status.Conditions).Message)
	})

	// Pod-side: exactly the page's fields are injected, and the pod runs on a reserved node.
	kubectl("apply", "-f", "testdata/page/pod.yaml")
	training := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-foo", Name: "training-step"}}
	t.Cleanup(func() { _ = shared.Client.Delete(context.Background(), training) })
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, shared.Client.Get(t.Context(), client.ObjectKeyFromObject(training), training))
		require.Equal(c, corev1.PodRunning, training.Status.Phase)
	})
	require.Equal(t, "tenant-foo", node(t, training.Spec.NodeName).Labels[v1alpha1.LabelTenant])
	requireInjected(t, training)

	// The gate: a debug pod without the label is unaffected and goes elsewhere.
	debug := pod("tenant-foo", "debug", "")
	where := running(t, debug)
	require.Nil(t, debug.Spec.Affinity)
	require.Empty(t, node(t, where).Labels[v1alpha1.LabelTenant])

	// Day-2: adding a node to an existing tenant.
	kubectlEdit("s/- gpu-04/- gpu-04\\n  - gpu-05/")
	eventually(t, func(c *assert.CollectT) { requireLocked(c, "gpu-05", "tenant-foo", "tenant-foo-reservation") })

	// Releasing capacity: gpu-04 runs a pod, is cordoned, waits, and is then free for anybody.
	long := pod("tenant-foo", "long-training", "gpu-04")
	long.Labels = map[string]string{"app.kubernetes.io/managed-by": "tenant-foo"}
	require.Equal(t, "gpu-04", running(t, long))
	kubectlEdit("/- gpu-04/d")
	eventually(t, func(c *assert.CollectT) {
		require.Contains(c, kubectlLine(c, "gpu-04", "get", "nodes", "-l", "reserved.tenant=tenant-foo"), "SchedulingDisabled")
	})
	finish(t, long)
	eventually(t, func(c *assert.CollectT) {
		requireFree(c, "gpu-04")
		require.False(c, node(c, "gpu-04").Spec.Unschedulable)
	})
	require.Equal(t, "gpu-04", running(t, pod("tenant-bar", "anybody", "gpu-04")))

	// Inspecting what's running on whose nodes.
	create(t, &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant-bar-reservation"},
		Spec: v1alpha1.ReservationSpec{Tenant: "tenant-bar",
			ReservedNodes: []string{"gpu-06", "gpu-07", "gpu-08", "gpu-09", "gpu-10", "gpu-11", "gpu-12", "gpu-13"}},
	})
	eventually(t, func(c *assert.CollectT) {
		out, err := shared.Kubectl(t.Context(), "get", "reservations", "tenant-bar-reservation", "tenant-foo-reservation")
		require.NoError(c, err)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Len(c, lines, 3)
		require.Equal(c, []string{"NAME", "TENANT", "RESERVED", "AGE"}, strings.Fields(lines[0]))
		require.Equal(c, []string{"tenant-bar-reservation", "tenant-bar", "8"}, strings.Fields(lines[1])[:3])
		require.Equal(c, []string{"tenant-foo-reservation", "tenant-foo", "4"}, strings.Fields(lines[2])[:3])
	})
	require.Contains(t, kubectl("get", "reservationbindings", "-n", "tenant-foo"), "tenant-foo-binding")
	require.Contains(t, kubectl("get", "pods", "-A", "--field-selector", "spec.nodeName="+training.Spec.NodeName), "training-step")

	// Quotas inside a reservation.
	kubectl("apply", "-f", "testdata/page/resourcequota.yaml")

	// Common failure modes: the commands that the page gives.
	require.Contains(t, kubectl("describe", "pod", "training-step", "-n", "tenant-foo"), "reserved=tenant-foo:NoSchedule")
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
		require.Contains(t, kubectl("get", "validatingwebhookconfigurations,mutatingwebhookconfigurations"), kind)
	}
	require.Equal(t, 2, strings.Count(kubectl("get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "name"), "reservation"))
	require.Contains(t, kubectl("auth", "can-i", "patch", "nodes",
		"--as=system:serviceaccount:reservation-operator:reservation-operator"), "yes")

	// A node is in two reservations: refused.
	err := shared.Client.Create(t.Context(), &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "greedy"},
		Spec:       v1alpha1.ReservationSpec{Tenant: "greedy", ReservedNodes: []string{"gpu-01"}},
	})
	require.ErrorContains(t, err, "gpu-01")
}

// requireInjected requires that what the page injects is in the pod, and nothing else of its kind but what the API
// server adds to every pod.
func requireInjected(t *testing.T, p *corev1.Pod) {
	t.Helper()
	data, err := os.ReadFile("testdata/page/injected.yaml")
	require.NoError(t, err)
	var want corev1.Pod
	require.NoError(t, yaml.UnmarshalStrict(data, &want))
	require.Empty(t, cmp.Diff(want.Spec.Affinity, p.Spec.Affinity))
	var got []corev1.Toleration
	for _, toleration := range p.Spec.Tolerations {
		if !strings.HasPrefix(toleration.Key, "node.kubernetes.io/") && toleration.Key != "nvidia.com/gpu" {
			got = append(got, toleration)
		}
	}
	require.Empty(t, cmp.Diff(want.Spec.Tolerations, got))
}

// kubectlLine returns the line of kubectl's output that begins with a name.
func kubectlLine(t require.TestingT, name string, args ...string) string {
	out, err := shared.Kubectl(context.Background(), args...)
	require.NoError(t, err)
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, name) {
			return line
		}
	}
	return ""
}
