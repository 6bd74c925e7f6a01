package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
)

const (
	// evictTimeout bounds one round of evictions. Where a budget's status is behind its spec, the API server asks to
	// come back in 10 s, and the client would sit that out, again and again, while a worker waits.
	evictTimeout = 5 * time.Second
	// The pause before evictions that were refused are tried again: it grows with the age of the release.
	minBlocked, maxBlocked = 5 * time.Second, time.Minute
)

// evict asks the API server to evict each pod, and says which ones it would not and why. A pod that is gone, or that
// another of the same name has replaced, counts as evicted: the watch on the node's pods brings the node back. What a
// budget holds is deleted where the Reservation says so.
func (r *Reconciler) evict(ctx context.Context, s Snapshot, step Step, said ledger.Report) (ctrl.Result, error) {
	round, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	// All at once, so that one that the API server wants to think about does not keep the others.
	answers := make([]blocked, len(step.Evict))
	errs := make([]error, len(step.Evict))
	var all sync.WaitGroup
	for i := range step.Evict {
		all.Go(func() { answers[i], errs[i] = r.evictOne(ctx, round, step.Evict[i]) })
	}
	all.Wait()
	answers = slices.DeleteFunc(answers, func(b blocked) bool { return b.reason == "" })
	if len(answers) > 0 {
		// A mistake that only a person can mend comes first.
		slices.SortStableFunc(answers, func(a, b blocked) int { return cmp.Compare(a.reason, b.reason) })
		said.Reason = answers[0].reason
		said.Message = fmt.Sprintf("node %s is being released, but %s cannot be evicted: %s",
			s.Node.Name, plural(len(answers), "pod"), answers[0].text)
		said.WaitingFor += "; " + answers[0].text
	}
	r.say(ctx, s, said)
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	after := step.After
	if pause := blockedPause(s); len(answers) > 0 && (after == 0 || pause < after) {
		after = pause
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// blocked is why one pod was not evicted, and the reason to report; none if it was.
type blocked struct{ reason, text string }

// evictOne evicts the pod that was seen and no other: the UID is a precondition of the deletion, since the one in the
// Eviction's own metadata is ignored (kubernetes/kubernetes#64923). An error is one that may pass.
func (r *Reconciler) evictOne(ctx, round context.Context, e Eviction) (blocked, error) {
	pod := &e.Pod
	options := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID)), GracePeriodSeconds: e.Grace}
	err := r.Client.SubResource("eviction").Create(round, pod, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: options,
	})
	answer := blocked{reason: v1alpha1.ReasonReleaseBlocked}
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return blocked{}, nil
	case ctx.Err() != nil:
		return blocked{}, ctx.Err()
	case apierrors.IsTooManyRequests(err), apierrors.IsForbidden(err):
		answer.text = refusal(err)
	case apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget"):
		answer = blocked{reason: v1alpha1.ReasonBudgetConflict, text: r.budgetsOf(ctx, pod)}
	case errors.Is(round.Err(), context.DeadlineExceeded):
		answer.text = "the API server asks to come back later"
	default:
		return blocked{}, fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	answer.text = fmt.Sprintf("pod %s/%s: %s", pod.Namespace, pod.Name, answer.text)
	if !e.Delete {
		return answer, nil
	}
	err = r.Client.Delete(ctx, pod, &client.DeleteOptions{Preconditions: options.Preconditions, GracePeriodSeconds: e.Grace})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return blocked{}, nil
	case apierrors.IsForbidden(err):
		answer.text += "; and it cannot be deleted: " + refusal(err)
		return answer, nil
	}
	return blocked{}, fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// budgetsOf names the disruption budgets of a pod that has more than one, with which the API server evicts nothing.
func (r *Reconciler) budgetsOf(ctx context.Context, pod *corev1.Pod) string {
	const text = "it has more than one disruption budget, with which the API server evicts no pod; remove all but one"
	var budgets policyv1.PodDisruptionBudgetList
	if err := r.Live.List(ctx, &budgets, client.InNamespace(pod.Namespace)); err != nil {
		return text
	}
	var names []string
	for i := range budgets.Items {
		if s, err := metav1.LabelSelectorAsSelector(budgets.Items[i].Spec.Selector); err == nil && s.Matches(labels.Set(pod.Labels)) {
			names = append(names, budgets.Items[i].Name)
		}
	}
	if len(names) == 0 {
		return text
	}
	slices.Sort(names)
	return text + ": " + strings.Join(names[:min(len(names), 5)], ", ")
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
