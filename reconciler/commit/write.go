package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/apply"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// The steps that write, and what is remembered of them.

// finish does what was left undone when the commit before this one was interrupted, so that this one is judged by what
// that one said.
func finish(ctx context.Context, x *run) *report.Outcome {
	for e, o := range x.facts.objects {
		if owner(o) != x.source.Name {
			continue
		}
		if err := x.applier().Finish(ctx, o); client.IgnoreNotFound(err) != nil {
			return x.retry(v1alpha1.ReasonApplyFailed, fmt.Sprintf("%s could not be taken over from who made it by hand: %v", apply.Name(e), err), err)
		}
	}
	return nil
}

// begin stores the inventory as old ∪ new, and a record of the attempt, before the first write: whatever comes
// between, the next attempt knows what may exist (DESIGN.md, Traps).
func begin(ctx context.Context, x *run) *report.Outcome {
	status := &x.source.Status
	union := x.union()
	known := len(status.History) > 0 && status.History[0].Revision == x.revision()
	writes := x.preview.Count(apply.Create) + x.preview.Count(apply.Change) + len(x.toPrune())
	if writes == 0 || known && slices.Equal(union, status.Inventory) {
		return nil
	}
	status.Inventory = union
	if !known {
		status.History = Record(status.History, x.entry(v1alpha1.OutcomeFailed, "applying was begun: "+x.plan.String()))
	}
	report.Waiting(v1alpha1.ReasonProgressing, fmt.Sprintf("applying %s: %s", x.revision(), x.plan), 0).Mark(x.source)
	if err := x.patch(ctx); err != nil {
		return x.retry(v1alpha1.ReasonApplyFailed, "the inventory could not be stored, so nothing was applied", fmt.Errorf("storing the inventory: %w", err))
	}
	return nil
}

func write(ctx context.Context, x *run) *report.Outcome {
	x.result = x.applier().Apply(ctx, x.commit(), x.preview)
	return nil
}

// prune deletes what the commit no longer contains. While some object of it could not be written nothing is deleted:
// what is gone from the commit may have been meant to be replaced by just that object. At rest it tries again what
// had to be kept.
func prune(ctx context.Context, x *run) *report.Outcome {
	switch {
	case x.resting && x.due && x.source.Prunes():
		if len(x.memory.kept) > 0 {
			x.pruneKept(ctx)
		}
	case !x.resting && len(x.result.Failed) == 0:
		x.pruned = x.applier().Prune(ctx, x.source.Name, x.toPrune())
	}
	return nil
}

func (x *run) pruneKept(ctx context.Context) {
	pruned := x.applier().Prune(ctx, x.source.Name, x.memory.kept)
	remaining := pruned.Remaining()
	x.source.Status.Inventory = apply.Difference(x.source.Status.Inventory, apply.Difference(x.memory.kept, remaining))
	x.memory.kept, x.memory.keptNotes = remaining, keptNotes(pruned)
	x.remember(pruned.Deleted)
}

// record writes down what became of the commit.
func record(ctx context.Context, x *run) *report.Outcome {
	x.remember(x.pruned.Deleted)
	if failures := x.failures(); len(failures) > 0 {
		message := Summary(failures)
		x.tally(v1alpha1.OutcomeFailed, message)
		x.tell(ctx, x.revision(), stateFailure, message)
		return x.retry(v1alpha1.ReasonApplyFailed, message, errors.New(message))
	}
	status := &x.source.Status
	status.Inventory = apply.Union(apply.EntriesOf(x.loaded.Objects), x.pruned.Remaining())
	x.rememberStates()
	x.memory.kept, x.memory.keptNotes, x.memory.notes = x.pruned.Remaining(), keptNotes(x.pruned), x.notes()
	x.memory.verdict = &verdict{revision: x.revision(), generation: x.source.Generation, at: x.Clock.Now()}
	if len(x.result.Awaited) > 0 {
		return x.await(ctx)
	}
	message := withNotes(x.plan.String(), x.plan.Warnings)
	if reverting := Reverting(status.History, x.loaded.Commit.Reverts); reverting != "" {
		message = reverting + ": " + message
	}
	writes := len(x.result.Created) + len(x.result.Changed) + len(x.pruned.Deleted)
	switch applied, asItIs := x.isApplied(); {
	case asItIs:
		x.restored()
	case !applied || writes > 0:
		x.tally(v1alpha1.OutcomeApplied, message)
	}
	status.LastAppliedRevision, status.LastAppliedDigest = x.revision(), apply.Digest(x.loaded.Objects)
	x.observed = true
	return nil
}

// await ends the way of a commit that names objects which are being deleted.
func (x *run) await(ctx context.Context) *report.Outcome {
	var awaited texts
	for _, s := range x.preview.Steps {
		if slices.Contains(x.result.Awaited, s.Entry()) {
			s.Verb = apply.Await
			awaited.add(s.Explain())
		}
	}
	message := awaited.String()
	x.tally(v1alpha1.OutcomeFailed, message)
	outcome := x.waiting(v1alpha1.ReasonProgressing, message)
	x.memory.verdict.outcome, x.memory.verdict.awaiting = outcome, true
	x.tell(ctx, x.revision(), statePending, message)
	return outcome
}

// restored is worth an event if somebody had changed what is applied.
func (x *run) restored() {
	for _, entries := range [][]apply.Entry{x.result.Created, x.result.Changed} {
		for _, e := range entries {
			driftCorrected(x.source, e).emit(x.Events)
		}
	}
}

// failures are what could not be written or deleted, in order.
func (x *run) failures() []render.Finding {
	var out []render.Finding
	for _, f := range x.result.Failed {
		out = append(out, f.Finding)
	}
	for _, k := range x.pruned.Failed {
		out = append(out, render.Finding{Kind: k.Entry.Kind, Namespace: k.Entry.Namespace, Name: k.Entry.Name, Message: k.Why})
	}
	return out
}

// notes are what goes with the source's message: fields that others hold, and objects that are skipped.
func (x *run) notes() []string {
	out := lines(x.preview.Findings)
	for _, s := range x.preview.Steps {
		if s.Verb == apply.Skip {
			out = append(out, s.Explain())
		}
	}
	return out
}

// keptNotes name the objects that were not deleted.
func keptNotes(pruned apply.Pruned) []string {
	var out []string
	for _, k := range slices.Concat(pruned.Kept, pruned.Left) {
		out = append(out, apply.Name(k.Entry)+" "+k.Why)
	}
	return out
}

// remember notes which objects were deleted, so that a cache that still has them is known to lag behind.
func (x *run) remember(deleted map[apply.Entry]types.UID) {
	if x.memory.deleted == nil || !x.resting {
		x.memory.deleted = map[types.UID]bool{}
	}
	for _, uid := range deleted {
		x.memory.deleted[uid] = true
	}
}

// rememberStates notes how the commit's objects were left.
func (x *run) rememberStates() {
	m := x.memory
	m.reservations, m.bindings = map[types.NamespacedName]State{}, map[types.NamespacedName]State{}
	for _, s := range x.preview.Steps {
		e := s.Entry()
		o := x.result.States[e]
		if o == nil {
			o = s.Live // awaited
		}
		if o == nil {
			continue
		}
		name := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
		switch e.Kind {
		case "Reservation":
			m.reservations[name] = StateOf(o)
		case "ReservationBinding":
			m.bindings[name] = StateOf(o)
		}
	}
}
