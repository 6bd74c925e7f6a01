package node

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Occupies reports whether a pod keeps a tenant's node from being released (DESIGN.md, Release): it is active, it is
// not a DaemonSet's or the node's own, and it is in one of the Reservation's namespaces or its own spec demands or
// tolerates exactly this tenant. A pod that is being deleted occupies until it is gone. An empty tenant, that of a node
// without a lock, has no pods but those of the namespaces.
func Occupies(pod *corev1.Pod, tenant string, namespaces []string) bool {
	if !active(pod) || system(pod) {
		return false
	}
	return slices.Contains(namespaces, pod.Namespace) ||
		tenant != "" && (demands(&pod.Spec, tenant) || tolerates(&pod.Spec, tenant))
}

// Foreign reports whether a pod on a tenant's locked node is somebody else's: active, not the node's own, and in no
// namespace that the Reservation accepts or that is exempt from the fence. Who owns it makes no difference: anybody may
// name a DaemonSet.
func Foreign(pod *corev1.Pod, node *corev1.Node, namespaces, exempt []string) bool {
	return active(pod) && !static(pod, node) && !slices.Contains(namespaces, pod.Namespace) && !slices.Contains(exempt, pod.Namespace)
}

// static reports whether the pod is the mirror of one that this node's kubelet runs by itself.
func static(pod *corev1.Pod, node *corev1.Node) bool {
	owner := metav1.GetControllerOf(pod)
	return isMirror(pod) && owner.Name == node.Name && owner.UID == node.UID
}

func active(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// system reports whether the pod comes with its node: a DaemonSet's or a static one.
func system(pod *corev1.Pod) bool {
	if ofDaemonSet(pod) {
		return true
	}
	return isMirror(pod)
}

// isMirror reports whether a pod says that it mirrors a static one.
func isMirror(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror && owner != nil && owner.Kind == "Node" && owner.APIVersion == "v1"
}

// ofDaemonSet reports whether a pod names a DaemonSet as its controller.
func ofDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == "apps/v1"
}

// owners returns whose pods these are, sorted, without those that a list of 10 has no room for.
func owners(pods []corev1.Pod) []v1alpha1.PodOwner {
	const most = 10
	counts := map[v1alpha1.PodOwner]int32{}
	for i := range pods {
		o := v1alpha1.PodOwner{Namespace: pods[i].Namespace, Kind: "Pod", Name: pods[i].Name}
		if controller := metav1.GetControllerOf(&pods[i]); controller != nil {
			o.Kind, o.Name = controller.Kind, controller.Name
		}
		counts[o]++
	}
	var out []v1alpha1.PodOwner
	for o, n := range counts {
		o.Pods = n
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b v1alpha1.PodOwner) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), most)]
}

// withoutOwner returns the pod as it would be if it named no owner.
func withoutOwner(pod *corev1.Pod) *corev1.Pod {
	p := *pod
	p.OwnerReferences = nil
	return &p
}

// demands reports whether the pod can only run on the tenant's nodes.
func demands(spec *corev1.PodSpec, tenant string) bool {
	if spec.NodeSelector[v1alpha1.LabelTenant] == tenant {
		return true
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return false
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return false
	}
	return slices.ContainsFunc(required.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == v1alpha1.LabelTenant && e.Operator == corev1.NodeSelectorOpIn && slices.Contains(e.Values, tenant)
		})
	})
}

func tolerates(spec *corev1.PodSpec, tenant string) bool {
	return slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		equal := t.Operator == corev1.TolerationOpEqual || t.Operator == ""
		return t.Key == v1alpha1.TaintKey && equal && t.Value == tenant
	})
}
