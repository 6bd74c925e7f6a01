package controlplane_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// patience is how long a test waits for what should happen within a second on an idle machine.
const patience = 2 * time.Minute

// childVariable, set to a folder, makes the test binary a child of TestProcessesEndWithAKilledTest.
const childVariable = "CONTROLPLANE_TEST_CHILD"

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		child(dir)
	}
	everything := controlplane.Options{Scheduler: true, ControllerManager: true, Kubelets: true}
	controlplane.Main(m, everything, func(c *controlplane.ControlPlane) { plane = c })
}

// child starts a control plane in the folder, says so and waits to be killed.
func child(dir string) {
	if _, err := controlplane.Start(context.Background(), controlplane.Options{Dir: dir}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("true")
	select {}
}

func client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(plane.Config)
	require.NoError(t, err)
	return client
}

// eventually repeats checks until all of them hold.
func eventually(t *testing.T, check func(*assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, patience, 100*time.Millisecond)
}

// withNodes registers nodes for a test and waits until they are Ready. Names of several tests must not collide.
func withNodes(t *testing.T, names ...string) {
	t.Helper()
	nodes := client(t).CoreV1().Nodes()
	for _, name := range names {
		_, err := nodes.Create(t.Context(), controlplane.Node(name, nil), metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, nodes.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	}
	eventually(t, func(c *assert.CollectT) {
		for _, name := range names {
			node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(c, err)
			assert.Contains(c, conditions(node), corev1.NodeReady)
			assert.Empty(c, node.Spec.Taints)
		}
	})
}

// conditions are the conditions of a node that are true.
func conditions(node *corev1.Node) (out []corev1.NodeConditionType) {
	for _, condition := range node.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			out = append(out, condition.Type)
		}
	}
	return out
}

// pod asks for so many GPUs. Nothing pulls its image.
func pod(name string, gpus int64) *corev1.Pod {
	limits := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "example.com/none", Resources: corev1.ResourceRequirements{Limits: limits},
		}}},
	}
}

func runPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pods := client(t).CoreV1().Pods(metav1.NamespaceDefault)
	_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) {
		live, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		require.NoError(c, err)
		assert.Equal(c, corev1.PodRunning, live.Status.Phase)
	})
}

func TestServerAndKubectlHaveTheBuiltVersion(t *testing.T) {
	version := func(path string) string {
		out, err := exec.Command(path, "--version").Output()
		require.NoError(t, err)
		return strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes ")
	}
	require.Equal(t, controlplane.Version, version(filepath.Join(plane.Binaries.Dir, controlplane.APIServer)))

	// KUBEBUILDER_ASSETS may bring an API server of its own.
	used := version(plane.Binaries.Path(controlplane.APIServer))
	live, err := client(t).Discovery().ServerVersion()
	require.NoError(t, err)
	require.Equal(t, used, live.GitVersion)
	require.True(t, strings.HasPrefix(used, "v"+live.Major+"."+live.Minor+"."), "%s is %s.%s", used, live.Major, live.Minor)

	out, err := plane.Kubectl(t.Context(), "version")
	require.NoError(t, err)
	require.Contains(t, out, "Client Version: "+controlplane.Version)
	require.Contains(t, out, "Server Version: "+used)
}

func TestAdmissionPoliciesAreServed(t *testing.T) {
	resources, err := client(t).Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	require.NoError(t, err)
	var names []string
	for _, resource := range resources.APIResources {
		names = append(names, resource.Name)
	}
	require.Subset(t, names, []string{
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
	})
}

func TestNodeNamesSortLikeNumbers(t *testing.T) {
	require.Equal(t, []string{"gpu-01", "gpu-02", "gpu-03"}, controlplane.NodeNames(3))
	require.Equal(t, "gpu-001", controlplane.NodeNames(100)[0])
	require.Empty(t, controlplane.NodeNames(0))
}
