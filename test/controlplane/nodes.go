package controlplane

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// CompleteAnnotation on a running pod, with the value "true", lets it end well: its phase becomes Succeeded.
	CompleteAnnotation = "test.reservation-operator.dev/complete"
	// LingerAnnotation on a pod, with the value "true", lets it use its whole grace period when it is deleted.
	LingerAnnotation = "test.reservation-operator.dev/linger"
)

// Node is a GPU node to create: 8 nvidia.com/gpu, 128 CPUs, 1 TiB of memory, 110 pods, the labels a kubelet sets and
// the given ones (which may be nil and win). With Options.Kubelets it becomes Ready by itself.
func Node(name string, labels map[string]string) *corev1.Node {
	all := map[string]string{
		corev1.LabelHostname:   name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
	}
	maps.Copy(all, labels)
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("128"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("110"),
		"nvidia.com/gpu":      resource.MustParse("8"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources.DeepCopy(),
			NodeInfo:    corev1.NodeSystemInfo{KubeletVersion: Version},
		},
	}
}

// NodeNames are the names gpu-01, gpu-02, … of n nodes, with as many digits as the last one needs but at least two.
func NodeNames(n int) []string {
	digits := max(2, len(fmt.Sprint(n)))
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("gpu-%0*d", digits, i+1)
	}
	return names
}
