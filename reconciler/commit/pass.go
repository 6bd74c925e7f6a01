package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/apply"
	"github.com/reservation-operator/reservation-operator/reconciler/plan"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
	"github.com/reservation-operator/reservation-operator/source/check"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// The steps from a commit to a plan. None of them writes to the cluster.

// gatherFacts reads what the commit is checked against. A commit that is refused already needs none.
func gatherFacts(ctx context.Context, x *run) *report.Outcome {
	if render.Rejected(x.loaded.Findings) {
		return nil
	}
	var err error
	if x.facts, err = x.gather(ctx, x.loaded.Objects); err != nil {
		return x.blocked(ctx, err)
	}
	return nil
}

// judge refuses the commit as a whole if anything is wrong with it: by the rules, or by what the API server says to a
// dry run of every object that the rules leave.
func judge(ctx context.Context, x *run) *report.Outcome {
	if render.Rejected(x.loaded.Findings) {
		return x.reject(ctx, x.loaded.Findings)
	}
	findings := x.loaded.Check(x.set())
	var err error
	x.preview, err = x.applier().Preview(ctx, x.commit(), sound(x.loaded.Objects, findings), x.facts.objects)
	if err == nil {
		findings = append(findings, x.preview.Findings...)
	}
	if err == nil && apply.Bytes(x.union()) > apply.MaxInventoryBytes {
		findings = append(findings, render.Finding{File: x.loaded.Path, Message: "the commit has more objects than one " +
			"ReservationSource can list in its status: spread them over several sources with a path each"})
	}
	switch {
	case render.Rejected(findings):
		check.Sort(findings)
		return x.reject(ctx, findings)
	case err != nil:
		return x.blocked(ctx, err)
	}
	check.Sort(findings)
	x.warnings = findings
	return nil
}

// sound returns the objects that no finding rejects.
func sound(objects []render.Object, findings []render.Finding) []render.Object {
	type place struct{ file, kind, namespace, name string }
	rejected := map[place]bool{}
	for _, f := range findings {
		if !f.Warning {
			rejected[place{f.File, f.Kind, f.Namespace, f.Name}] = true
		}
	}
	var out []render.Object
	for _, o := range check.Storable(objects) {
		if !rejected[place{o.File, o.GetKind(), o.GetNamespace(), o.GetName()}] {
			out = append(out, o)
		}
	}
	return out
}

// reject ends the way of a commit that is wrong. It has changed nothing, and the last good one stays.
func (x *run) reject(ctx context.Context, findings []render.Finding) *report.Outcome {
	reason, message := v1alpha1.ReasonCommitRejected, Summary(findings)
	if _, asItIs := x.isApplied(); asItIs {
		// It was right when it was applied: somebody changed the cluster so that it cannot be applied again.
		reason = v1alpha1.ReasonApplyFailed
	}
	if x.tally(v1alpha1.OutcomeRejected, message) {
		first, all := logged(findings)
		logf.FromContext(ctx).Info("the commit is rejected", "revision", x.revision(), "findings", first, "count", all)
	}
	return x.conclude(ctx, x.stalled(reason, message))
}

// blocked ends the way of a commit that the cluster, not its content, keeps from being applied.
func (x *run) blocked(ctx context.Context, err error) *report.Outcome {
	var blocked *apply.Blocked
	switch {
	case errors.As(err, &blocked):
	case meta.IsNoMatchError(err):
		blocked = &apply.Blocked{Reason: v1alpha1.ReasonCRDMissing, Message: fmt.Sprintf("%v: install the operator's CRDs (config/crd)", err)}
	default:
		return x.retry(v1alpha1.ReasonApplyFailed, fmt.Sprintf("%s could not be checked: %v", x.revision(), err), err)
	}
	x.tally(v1alpha1.OutcomeFailed, blocked.Message)
	return x.conclude(ctx, x.stalled(blocked.Reason, blocked.Message))
}

// conclude remembers that the commit is not applied and tells the forge.
func (x *run) conclude(ctx context.Context, outcome *report.Outcome) *report.Outcome {
	x.noteConvergence(ctx)
	x.memory.verdict = &verdict{revision: x.revision(), generation: x.source.Generation, at: x.Clock.Now(), outcome: outcome}
	x.tell(ctx, x.revision(), stateFailure, outcome.Message())
	return outcome
}

// decidePlan says what the commit would do to nodes.
func decidePlan(_ context.Context, x *run) *report.Outcome {
	in := plan.Input{Before: x.facts.reservations, Nodes: x.facts.nodes, Index: x.facts.index, Warnings: lines(x.warnings)}
	var set []v1alpha1.Reservation
	for _, s := range x.preview.Steps {
		name := apply.Name(s.Entry())
		switch s.Verb {
		case apply.Create:
			in.Created = append(in.Created, name)
		case apply.Change:
			in.Changed = append(in.Changed, name)
		default:
			continue
		}
		if r, ok := reservationOf(s.Then); ok {
			set = append(set, r)
		}
	}
	for _, e := range x.toPrune() {
		in.Deleted = append(in.Deleted, apply.Name(e))
	}
	in.After = plan.After(in.Before, set, x.removed("Reservation"))
	x.plan = plan.Make(in)
	return nil
}

func reservationOf(o *unstructured.Unstructured) (v1alpha1.Reservation, bool) {
	var r v1alpha1.Reservation
	if o == nil || o.GetKind() != "Reservation" {
		return r, false
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &r)
	return r, err == nil
}

// tally records what became of the commit, with the objects that were written. It reports whether that is new, which
// is worth an event.
func (x *run) tally(outcome v1alpha1.Outcome, message string) bool {
	now := metav1.NewTime(x.Clock.Now())
	e := x.entry(outcome, message)
	e.AppliedAt = &now
	e.Created, e.Changed, e.Deleted = int32(len(x.result.Created)), int32(len(x.result.Changed)), int32(len(x.pruned.Deleted))
	before := x.source.Status.History
	x.source.Status.History = Record(before, e)
	after := x.source.Status.History[0]
	if len(before) > 0 && before[0].Revision == after.Revision && before[0].Outcome == after.Outcome && before[0].Message == after.Message {
		return false
	}
	committed(x.source, after).emit(x.Events)
	return true
}

// entry returns the record of the commit.
func (x *run) entry(outcome v1alpha1.Outcome, message string) Entry {
	c := x.loaded.Commit
	e := Entry{
		Revision: c.Revision, Author: c.Author, Subject: c.Subject, Reverts: c.Reverts, Outcome: outcome, Message: message,
		NodesLocked: int32(x.plan.NodesLocked()), NodesReleased: int32(x.plan.NodesReleased()),
	}
	if !c.Time.IsZero() {
		written := metav1.NewTime(c.Time.UTC())
		e.Time = &written
	}
	return e
}

func (x *run) revision() string { return x.loaded.Commit.Revision }

func (x *run) commit() apply.Commit {
	return apply.Commit{Source: x.source.Name, Revision: x.revision()}
}

// isApplied reports whether the commit is on record as applied, and whether that was with the objects that it renders to
// now: another path of the spec makes others of it.
func (x *run) isApplied() (applied, asItIs bool) {
	h := x.source.Status.History
	applied = len(h) > 0 && h[0].Revision == x.revision() && h[0].Outcome == v1alpha1.OutcomeApplied
	return applied, applied && x.source.Status.LastAppliedDigest == apply.Digest(x.loaded.Objects)
}

// union is the inventory from before the first write to after the last.
func (x *run) union() []apply.Entry {
	return apply.Union(x.source.Status.Inventory, apply.EntriesOf(x.loaded.Objects))
}

func lines(findings []render.Finding) []string {
	var out []string
	for _, f := range findings {
		if f.Warning {
			out = append(out, f.String())
		}
	}
	return slices.Compact(out)
}
