package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

const (
	// evictTimeout bounds one round of evictions. Where a budget's status is behind its spec, the API server asks to
	// come back in 10 s, and the client would sit that out, again and again, while a worker waits.
	evictTimeout = 5 * time.Second
	// The pause before evictions that were refused are tried again: it grows with the age of the release.
	minBlocked, maxBlocked = 5 * time.Second, time.Minute
)

// evict asks the API server to evict each pod, and says which ones it would not and why. A pod that is gone, or that
// another of the same name has replaced, counts as evicted: the watch on the node's pods brings the node back.
func (r *Reconciler) evict(ctx context.Context, s Snapshot, step Step, said report.NodeReport) (ctrl.Result, error) {
	round, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	// All at once, so that one that the API server wants to think about does not keep the others.
	errs := make([]error, len(step.Evict))
	var all sync.WaitGroup
	for i := range step.Evict {
		all.Go(func() { errs[i] = r.evictOne(round, &step.Evict[i]) })
	}
	all.Wait()
	var blocked []string
	for i, err := range errs {
		pod := &step.Evict[i]
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case ctx.Err() != nil:
			return ctrl.Result{}, ctx.Err()
		case apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err), apierrors.IsForbidden(err):
			blocked = append(blocked, fmt.Sprintf("pod %s/%s: %s", pod.Namespace, pod.Name, refusal(err)))
		case errors.Is(round.Err(), context.DeadlineExceeded):
			blocked = append(blocked, fmt.Sprintf("pod %s/%s: the API server asks to come back later", pod.Namespace, pod.Name))
		default:
			return ctrl.Result{}, fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if len(blocked) == 0 {
		r.Ledger.Set(s.Node.Name, said)
		return ctrl.Result{}, nil
	}
	said.Reason = v1alpha1.ReasonReleaseBlocked
	said.Message = fmt.Sprintf("node %s is being released, but %s cannot be evicted: %s",
		s.Node.Name, plural(len(blocked), "pod"), blocked[0])
	said.WaitingFor += "; " + blocked[0]
	r.Ledger.Set(s.Node.Name, said)
	return ctrl.Result{RequeueAfter: blockedPause(s)}, nil
}

// evictOne evicts the pod that was seen and no other: the UID is a precondition of the deletion, since the one in the
// Eviction's own metadata is ignored (kubernetes/kubernetes#64923).
func (r *Reconciler) evictOne(ctx context.Context, pod *corev1.Pod) error {
	return r.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
}

// refusal is why an eviction was refused. The budget's name is not in the error's text but among its causes.
func refusal(err error) string {
	reasons := []string{strings.TrimSuffix(err.Error(), ".")}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			reasons = append(reasons, strings.TrimSuffix(cause.Message, "."))
		}
	}
	return strings.Join(reasons, ": ")
}

func blockedPause(s Snapshot) time.Duration {
	since, _ := lock.Since(s.Node)
	return min(maxBlocked, max(minBlocked, s.Now.Sub(since)/8))
}
