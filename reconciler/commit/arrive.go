package commit

import (
	"context"
	"errors"
	"fmt"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
	"github.com/reservation-operator/reservation-operator/source"
)

// The steps from a source to the commit at the head of its branch.

// suspended leaves a source that is suspended as it is, its conditions too: what they said of its objects is as true
// as before. Only one that never had any is given one. That its nodes come to rest is still noted.
func suspended(ctx context.Context, x *run) *report.Outcome {
	news := x.source.Spec.Suspend != x.memory.suspended
	x.memory.suspended = x.source.Spec.Suspend
	if !x.source.Spec.Suspend {
		return nil
	}
	e := suspension(x.source)
	if news {
		e.emit(x.Events)
		logf.FromContext(ctx).Info(e.note)
	}
	x.noteConvergence(ctx)
	if !conditions.Has(x.source, v1alpha1.ConditionReady) {
		conditions.MarkUnknown(x.source, v1alpha1.ConditionReady, v1alpha1.ReasonSuspended, "%s", e.note)
	}
	x.untouched = true
	outcome := report.Waiting(v1alpha1.ReasonSuspended, e.note, 0)
	return &outcome
}

// restUntilDue keeps what the last pass came to until the interval is over, unless the source or its objects changed.
func restUntilDue(ctx context.Context, x *run) *report.Outcome {
	m := x.memory
	requested := x.source.Annotations[v1alpha1.AnnotationReconcileRequest]
	switch {
	case requested != "" && requested != x.source.Status.LastHandledReconcileAt:
		m.verdict, m.trouble = nil, nil
	case x.drifted(ctx):
		m.verdict = nil
	}
	// A tenth earlier: the queue comes back with a jitter.
	if x.Clock.Since(m.looked) >= x.interval()*9/10 {
		return nil
	}
	switch {
	case m.trouble.holds(x.source):
		x.observed = true
		x.noteConvergence(ctx)
		return m.trouble.outcome
	case m.verdict.holds(x.source):
		return x.rest(ctx)
	}
	return nil
}

// restIfKnown keeps what the last pass came to if the branch has not moved. From time to time the whole way is gone
// again: with a commit that was not applied, since its cause may be gone; with one that was, since somebody may have
// changed an object that is not watched.
func restIfKnown(ctx context.Context, x *run) *report.Outcome {
	v := x.memory.verdict
	if !v.holds(x.source) || v.revision != x.head.Revision() {
		return nil
	}
	if v.stale(x.Clock.Now()) {
		return nil
	}
	return x.rest(ctx)
}

// rest stays with the verdict of the last pass.
func (x *run) rest(ctx context.Context) *report.Outcome {
	x.observed = true
	if outcome := x.memory.verdict.outcome; outcome != nil {
		x.noteConvergence(ctx)
		return outcome
	}
	x.resting = true
	return nil
}

// gatherSecret reads the source's credentials and makes the request.
func gatherSecret(ctx context.Context, x *run) *report.Outcome {
	x.request = source.RequestOf(x.source, nil)
	if x.source.Spec.SecretRef == nil {
		return nil
	}
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: x.Namespace, Name: x.source.Spec.SecretRef.Name}
	switch err := x.Live.Get(ctx, key, secret); {
	case apierrors.IsNotFound(err):
		return x.stalled(v1alpha1.ReasonSecretNotFound, fmt.Sprintf(
			"there is no Secret %s in the namespace %s: make it, or correct spec.secretRef", key.Name, key.Namespace))
	case apierrors.IsForbidden(err):
		return x.stalled(v1alpha1.ReasonForbidden, fmt.Sprintf(
			"the operator may not read the Secret %s: check with: kubectl auth can-i get secrets -n %s --as=%s", key.Name, key.Namespace, x.applier().UserName()))
	case err != nil:
		return x.retry(v1alpha1.ReasonFetchFailed, fmt.Sprintf("reading the Secret %s", key.Name), fmt.Errorf("reading the Secret %s: %w", key, err))
	}
	x.request.Remote.Secret = secret.Data
	return nil
}

// look asks the repository where its branch points to.
func look(ctx context.Context, x *run) *report.Outcome {
	head, err := x.Chain.Head(ctx, x.request)
	if err != nil {
		return x.unreadable(ctx, err, "")
	}
	x.head, x.due = head, true
	x.memory.looked, x.memory.trouble = x.Clock.Now(), nil
	return nil
}

// load fetches, verifies and renders the commit.
func load(ctx context.Context, x *run) *report.Outcome {
	loaded, err := x.Chain.Load(ctx, x.request, x.head)
	if err != nil {
		return x.unreadable(ctx, err, x.head.Revision())
	}
	x.loaded = loaded
	x.source.Status.LastAttemptedRevision = loaded.Commit.Revision
	if x.memory.told.revision != loaded.Commit.Revision {
		x.tell(ctx, loaded.Commit.Revision, statePending, "being checked")
	}
	return nil
}

// unreadable ends the way of a source whose repository gives nothing to apply. Nothing is applied or pruned. The
// revision is that of the commit which cannot be used, or empty if it is the repository that cannot be read.
func (x *run) unreadable(ctx context.Context, err error, revision string) *report.Outcome {
	x.noteConvergence(ctx)
	var e *source.Error
	switch {
	case !errors.As(err, &e):
		return x.retry(v1alpha1.ReasonFetchFailed, err.Error(), err)
	case !e.Stalled:
		return x.retry(e.Reason, e.Message, fmt.Errorf("%s: %w", e.Reason, err))
	}
	outcome := x.stalled(e.Reason, e.Message)
	v := &verdict{revision: revision, generation: x.source.Generation, at: x.Clock.Now(), outcome: outcome,
		costly: e.Reason == v1alpha1.ReasonRenderFailed}
	if revision == "" {
		x.memory.looked, x.memory.trouble = x.Clock.Now(), v
		return outcome
	}
	x.source.Status.LastAttemptedRevision = revision
	x.memory.verdict = v
	x.tell(ctx, revision, stateFailure, e.Message)
	return outcome
}
