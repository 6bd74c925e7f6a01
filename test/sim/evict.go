package sim

import (
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// evict answers a request to the eviction subresource, as kubernetes/pkg/registry/core/pod/storage/eviction.go does.
// The answer depends on no other eviction of the same moment: a budget lets all go or none.
func (s *server) evict(by *task, name string, options *metav1.DeleteOptions) error {
	pod := stored[*corev1.Pod](s, pods, name)
	if pod == nil {
		return notFound(pods, name)
	}
	if err := precondition(pod, options.Preconditions); err != nil {
		return err
	}
	if active(pod) && pod.Status.Phase != corev1.PodPending && pod.DeletionTimestamp.IsZero() {
		if err := s.askBudgets(pod); err != nil {
			return err
		}
	}
	s.delete(by, pods, name, options.GracePeriodSeconds)
	return nil
}

func precondition(pod *corev1.Pod, p *metav1.Preconditions) error {
	if p != nil && p.UID != nil && *p.UID != pod.UID {
		return conflict(pods, keyOf(pod), fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s)", *p.UID, pod.UID))
	}
	return nil
}

// askBudgets lets a pod be evicted, or says why its budgets do not.
func (s *server) askBudgets(pod *corev1.Pod) error {
	var over []*policyv1.PodDisruptionBudget
	for _, name := range s.names(budgets) {
		b := stored[*policyv1.PodDisruptionBudget](s, budgets, name)
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			over = append(over, b)
		}
	}
	switch {
	case len(over) == 0:
		return nil
	case len(over) > 1:
		return apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget, which the eviction subresource does not support"))
	case over[0].Status.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New("pdb disruptions allowed is negative"))
	case over[0].Status.DisruptionsAllowed > 0:
		return nil
	}
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + over[0].Name + " needs more healthy pods",
	})
	err.ErrStatus.Code = http.StatusTooManyRequests
	return err
}
