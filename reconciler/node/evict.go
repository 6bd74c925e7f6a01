package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

// evict asks the API server to evict each pod, and says which ones it would not. A pod that is gone, or that another
// of the same name has replaced, counts as evicted: the watch on the node's pods brings the node back.
func (r *Reconciler) evict(ctx context.Context, step Step, said report.NodeReport) (ctrl.Result, error) {
	var blocked []string
	for i := range step.Evict {
		pod := &step.Evict[i]
		err := r.evictOne(ctx, pod)
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err), apierrors.IsForbidden(err):
			blocked = append(blocked, fmt.Sprintf("%s/%s: %s", pod.Namespace, pod.Name, err))
		default:
			return ctrl.Result{}, fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if len(blocked) == 0 {
		r.Ledger.Set(step.Evict[0].Spec.NodeName, said)
		return ctrl.Result{}, nil
	}
	said.WaitingFor = fmt.Sprintf("%s; %d cannot be evicted: %s", said.WaitingFor, len(blocked), blocked[0])
	r.Ledger.Set(step.Evict[0].Spec.NodeName, said)
	return ctrl.Result{RequeueAfter: retryBlocked}, nil
}

// evictOne evicts the pod that was seen and no other: the UID is a precondition of the deletion, since the one in the
// Eviction's own metadata is ignored (kubernetes/kubernetes#64923).
func (r *Reconciler) evictOne(ctx context.Context, pod *corev1.Pod) error {
	return r.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
}
