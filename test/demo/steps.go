package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// reservationOfFoo is where the example keeps the page's Reservation.
const reservationOfFoo = "tenants/tenant-foo/reservation.yaml"

func (s *story) firstCommit(ctx context.Context) error {
	source := &v1alpha1.ReservationSource{
		ObjectMeta: metav1.ObjectMeta{Name: "tenants"},
		Spec: v1alpha1.ReservationSourceSpec{
			URL: s.repository.URL, Path: "tenants", Ref: &v1alpha1.GitReference{Branch: "main"},
			Interval: metav1.Duration{Duration: 1_000_000_000},
		},
	}
	if err := s.cluster.Client.Create(ctx, source); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) error {
		if err := s.reserved(ctx, "tenant-foo-reservation", 4); err != nil {
			return err
		}
		return errors.Join(s.reserved(ctx, "tenant-bar-reservation", 8), s.ready(ctx))
	})
}

func (s *story) tenantPod(ctx context.Context) error {
	pod := gpuPod("tenant-foo", "training-step")
	pod.Labels = map[string]string{"app.kubernetes.io/managed-by": "tenant-foo"}
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	return s.runsOn(ctx, pod, "tenant-foo")
}

func (s *story) foreignPod(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "visitors"}}
	if err := s.cluster.Client.Create(ctx, namespace); err != nil {
		return err
	}
	pod := gpuPod("visitors", "tolerates-everything")
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	return s.runsOn(ctx, pod, "")
}

func (s *story) pinnedPod(ctx context.Context) error {
	pod := gpuPod("visitors", "names-its-node")
	pod.Spec.NodeName = "gpu-01"
	err := s.cluster.Client.Create(ctx, pod)
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("want the pod to be refused, got %v", err)
	}
	fmt.Fprintf(s.out, "Refused: %s\n", err)
	return nil
}

func (s *story) removeNode(ctx context.Context) error {
	// The first pod may have the whole of gpu-04, or be one more to wait for.
	if err := s.finish(ctx, gpuPod("tenant-foo", "training-step")); err != nil {
		return err
	}
	pod := gpuPod("tenant-foo", "long-training")
	pod.Labels = map[string]string{"app.kubernetes.io/managed-by": "tenant-foo"}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "gpu-04"}
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	if err := s.runsOn(ctx, pod, "tenant-foo"); err != nil {
		return err
	}
	if err := s.repository.Edit(reservationOfFoo, "    - gpu-04\n", ""); err != nil {
		return err
	}
	var err error
	if s.release, err = s.repository.Commit("Give gpu-04 back to the general pool"); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) error {
		node, err := s.node(ctx, "gpu-04")
		if err == nil && (!node.Spec.Unschedulable || node.Labels[v1alpha1.LabelTenant] != "tenant-foo") {
			err = errors.New("gpu-04 is not cordoned under its lock")
		}
		return err
	})
}

func (s *story) podEnds(ctx context.Context) error {
	if err := s.finish(ctx, gpuPod("tenant-foo", "long-training")); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) error {
		node, err := s.node(ctx, "gpu-04")
		if err == nil && (node.Spec.Unschedulable || node.Labels[v1alpha1.LabelTenant] != "" || tainted(node)) {
			err = errors.New("gpu-04 is not released")
		}
		return errors.Join(err, s.reserved(ctx, "tenant-foo-reservation", 3))
	})
}

func (s *story) revert(ctx context.Context) error {
	if _, err := s.repository.Revert(s.release); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) error {
		node, err := s.node(ctx, "gpu-04")
		if err == nil && (node.Labels[v1alpha1.LabelTenant] != "tenant-foo" || !tainted(node)) {
			err = errors.New("gpu-04 is not locked")
		}
		return errors.Join(err, s.reserved(ctx, "tenant-foo-reservation", 4), s.reverted(ctx))
	})
}

// reverted checks that the record names the commit that was reverted.
func (s *story) reverted(ctx context.Context) error {
	source := &v1alpha1.ReservationSource{}
	if err := s.cluster.Client.Get(ctx, types.NamespacedName{Name: "tenants"}, source); err != nil {
		return err
	}
	if len(source.Status.History) == 0 || source.Status.History[0].Reverts != s.release {
		return errors.New("the history does not name the reverted commit")
	}
	return nil
}

func (s *story) badCommit(ctx context.Context) error {
	if err := s.repository.Edit(reservationOfFoo, "    - gpu-04\n", "    - gpu-04\n    - gpu-05\n"); err != nil {
		return err
	}
	if _, err := s.repository.Commit("Take gpu-05 for tenant-foo"); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) error {
		source := &v1alpha1.ReservationSource{}
		if err := s.cluster.Client.Get(ctx, types.NamespacedName{Name: "tenants"}, source); err != nil {
			return err
		}
		message := conditions.GetMessage(source, v1alpha1.ConditionReady)
		if conditions.GetReason(source, v1alpha1.ConditionReady) != v1alpha1.ReasonCommitRejected || !strings.Contains(message, "gpu-05") {
			return fmt.Errorf("the source does not say that gpu-05 is in two Reservations: %s", message)
		}
		return errors.Join(s.reserved(ctx, "tenant-foo-reservation", 4), s.reserved(ctx, "tenant-bar-reservation", 8))
	})
}

// reserved checks how many nodes a Reservation's status counts.
func (s *story) reserved(ctx context.Context, name string, want int32) error {
	r := &v1alpha1.Reservation{}
	if err := s.cluster.Client.Get(ctx, types.NamespacedName{Name: name}, r); err != nil {
		return err
	}
	if r.Status.Reserved != want {
		return fmt.Errorf("%s reserves %d nodes, not %d", name, r.Status.Reserved, want)
	}
	return nil
}

// ready checks that the source says that the nodes have converged, so that bindings and webhooks are in place.
func (s *story) ready(ctx context.Context) error {
	source := &v1alpha1.ReservationSource{}
	if err := s.cluster.Client.Get(ctx, types.NamespacedName{Name: "tenants"}, source); err != nil {
		return err
	}
	var bindings v1alpha1.ReservationBindingList
	if err := s.cluster.Client.List(ctx, &bindings); err != nil {
		return err
	}
	for i := range bindings.Items {
		if !conditions.IsReady(&bindings.Items[i]) {
			return fmt.Errorf("binding %s is not ready", bindings.Items[i].Name)
		}
	}
	if !conditions.IsReady(source) {
		return fmt.Errorf("the source is not ready: %s", conditions.GetMessage(source, v1alpha1.ConditionReady))
	}
	return nil
}

// finish lets a running pod end by itself.
func (s *story) finish(ctx context.Context, pod *corev1.Pod) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, controlplane.CompleteAnnotation)
	return s.cluster.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// create creates a pod, again if its namespace's service account is not there yet.
func (s *story) create(ctx context.Context, pod *corev1.Pod) error {
	return await(ctx, func(ctx context.Context) error { return s.cluster.Client.Create(ctx, pod.DeepCopy()) })
}

// runsOn waits until the pod runs on a node whose tenant is the given one; empty is a node of nobody's.
func (s *story) runsOn(ctx context.Context, pod *corev1.Pod, tenant string) error {
	return await(ctx, func(ctx context.Context) error {
		live := &corev1.Pod{}
		if err := s.cluster.Client.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
			return err
		}
		if live.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s is %s", live.Name, live.Status.Phase)
		}
		node, err := s.node(ctx, live.Spec.NodeName)
		if err == nil && node.Labels[v1alpha1.LabelTenant] != tenant {
			err = fmt.Errorf("pod %s runs on %s of tenant %q", live.Name, node.Name, node.Labels[v1alpha1.LabelTenant])
		}
		return err
	})
}

func (s *story) node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, s.cluster.Client.Get(ctx, types.NamespacedName{Name: name}, node)
}

func tainted(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == v1alpha1.TaintKey {
			return true
		}
	}
	return false
}

// gpuPod returns the page's pod: plain, and asking for eight GPUs, which is a whole node.
func gpuPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "trainer", Image: "my-tenant.io/trainer:v1",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}},
		}}},
	}
}
