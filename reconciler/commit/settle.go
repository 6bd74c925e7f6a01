package commit

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
	"github.com/reservation-operator/reservation-operator/source/forge"
)

const (
	statePending = forge.Pending
	stateSuccess = forge.Success
	stateFailure = forge.Failure
)

// progressInterval is how often the progress of the nodes is written at most: a thousand nodes on their way are a
// thousand events, and the source's status is large.
const progressInterval = time.Second

// awaitNodes is the last step: the commit is applied, and the source is ready once the nodes are where it wants them.
// Every change of a Reservation brings it back here.
func awaitNodes(ctx context.Context, x *run) *report.Outcome {
	c, err := x.convergence(ctx)
	if err != nil {
		return x.retry(v1alpha1.ReasonApplyFailed, err.Error(), err)
	}
	revision := x.source.Status.LastAppliedRevision
	if c.Done {
		x.source.Status.History = Converged(x.source.Status.History, metav1.NewTime(x.Clock.Now()))
		x.tell(ctx, revision, stateSuccess, c.Text)
		outcome := report.Done(withNotes(fmt.Sprintf("applied %s: %s", revision, c.Text), x.memory.allNotes()))
		return &outcome
	}
	return x.progress(ctx, revision, c)
}

// progress says how far the nodes are, at most once per progressInterval.
func (x *run) progress(ctx context.Context, revision string, c Convergence) *report.Outcome {
	message := withNotes(fmt.Sprintf("applied %s: %s", revision, c.Text), x.memory.allNotes())
	ready := conditions.Get(x.source, v1alpha1.ConditionReady)
	if x.resting && ready != nil && ready.Reason == v1alpha1.ReasonConverging && ready.Message != message {
		if left := progressInterval - x.Clock.Since(x.memory.wrote); left > 0 {
			outcome := report.Waiting(v1alpha1.ReasonConverging, ready.Message, left)
			return &outcome
		}
	}
	x.memory.wrote = x.Clock.Now()
	x.tell(ctx, revision, statePending, c.Text)
	return x.waiting(v1alpha1.ReasonConverging, message)
}

func (x *run) convergence(ctx context.Context) (Convergence, error) {
	reservations, _, err := x.owned(ctx)
	if err != nil {
		return Convergence{}, err
	}
	expected := make(map[string]State, len(x.memory.reservations))
	for name, s := range x.memory.reservations {
		expected[name.Name] = s
	}
	return Converge(reservations, expected, x.memory.deleted), nil
}

// noteConvergence stamps the last applied commit if its nodes have come to rest, whatever is in the way of a newer one.
func (x *run) noteConvergence(ctx context.Context) {
	if x.memory.reservations == nil {
		return // nothing was applied since the start, so what to expect is not known
	}
	if c, err := x.convergence(ctx); err == nil && c.Done {
		x.source.Status.History = Converged(x.source.Status.History, metav1.NewTime(x.Clock.Now()))
	}
}

// drifted reports whether somebody changed what is applied.
func (x *run) drifted(ctx context.Context) bool {
	m := x.memory
	lost := x.memories.lost(x.source.Name)
	if m.verdict == nil || m.verdict.outcome != nil && !m.verdict.awaiting {
		return false
	}
	reservations, bindings, err := x.owned(ctx)
	if err != nil {
		return false // the last step says so
	}
	return Drifted(m.reservations, pointers(reservations), lost) || Drifted(m.bindings, pointers(bindings), lost)
}

func pointers[T any](values []T) []*T {
	out := make([]*T, len(values))
	for i := range values {
		out[i] = &values[i]
	}
	return out
}

// tell tells the forge what it has not been told.
func (x *run) tell(ctx context.Context, revision string, state forge.State, text string) {
	news := told{revision, state, text}
	if x.Reporter == nil || news == x.memory.told {
		return
	}
	x.memory.told = news
	if err := x.Reporter.Report(ctx, x.source, revision, state, text); err != nil {
		logf.FromContext(ctx).Error(err, "the forge could not be told", "revision", revision, "state", state)
	}
}

// named is the request for a source.
func named(source string) types.NamespacedName { return types.NamespacedName{Name: source} }
