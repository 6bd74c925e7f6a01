package apply

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Pruned is what became of objects that a commit no longer contains, each list in the order of deletion.
type Pruned struct {
	// Deleted are those whose deletion the API server accepted just now, by UID. A Reservation goes when its nodes
	// have been released.
	Deleted map[Entry]types.UID
	// Kept are still there and still the source's; they stay in its inventory and are tried again.
	Kept []Kept
	// Left are there and no longer the source's: they bear another label, or none. They leave its inventory.
	Left []Kept
	// Failed are those that could not be deleted; they stay in the inventory too.
	Failed []Kept
}

// Kept is an object that was not deleted.
type Kept struct {
	Entry Entry
	// Why says it in half a sentence that goes on from the object's name.
	Why string
	// Err is set for failures.
	Err error
}

// Prune deletes objects of a source: ReservationBindings first, then Reservations, then quotas and limits, and
// Namespaces last and only when nothing runs there. Objects that are gone already are not mentioned. It goes on after
// a failure, and blocks until all is tried or ctx is done.
func (a *Applier) Prune(ctx context.Context, source string, entries []Entry) Pruned {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(x, y Entry) int { return deletionOrder(x.Kind) - deletionOrder(y.Kind) })
	out := Pruned{Deleted: map[Entry]types.UID{}}
	for from := 0; from < len(entries); {
		to := from
		for to < len(entries) && deletionOrder(entries[to].Kind) == deletionOrder(entries[from].Kind) {
			to++
		}
		group := entries[from:to]
		verdicts := make([]verdict, len(group))
		a.parallel(len(group), func(i int) { verdicts[i] = a.remove(ctx, source, group[i]) })
		for i, v := range verdicts {
			out.add(group[i], v)
		}
		from = to
	}
	return out
}

// verdict is what became of one object: at most one field is set.
type verdict struct {
	deleted    types.UID
	kept, left string
	err        error
}

func (p *Pruned) add(e Entry, v verdict) {
	switch {
	case v.err != nil:
		p.Failed = append(p.Failed, Kept{Entry: e, Why: "could not be deleted: " + v.err.Error(), Err: v.err})
	case v.kept != "":
		p.Kept = append(p.Kept, Kept{Entry: e, Why: v.kept})
	case v.left != "":
		p.Left = append(p.Left, Kept{Entry: e, Why: v.left})
	case v.deleted != "":
		p.Deleted[e] = v.deleted
	}
}

// Remaining returns the entries that stay in the inventory.
func (p Pruned) Remaining() []Entry {
	var out []Entry
	for _, list := range [][]Kept{p.Kept, p.Failed} {
		for _, k := range list {
			out = append(out, k.Entry)
		}
	}
	return Union(out, nil)
}

func (a *Applier) remove(ctx context.Context, source string, e Entry) verdict {
	if err := ctx.Err(); err != nil {
		return verdict{err: err}
	}
	live, err := a.get(ctx, e)
	switch {
	case meta.IsNoMatchError(err) || err == nil && live == nil:
		return verdict{} // gone, or gone with its kind
	case err != nil:
		return verdict{err: a.explain(ctx, "get", e, err)}
	case live.GetLabels()[v1alpha1.LabelSource] != source:
		return verdict{left: fmt.Sprintf("was left in place: it does not bear the label %s=%s any more", v1alpha1.LabelSource, source)}
	case live.GetAnnotations()[v1alpha1.AnnotationReconcile] == "disabled":
		return verdict{kept: fmt.Sprintf("is kept, because it is annotated %s=disabled", v1alpha1.AnnotationReconcile)}
	case live.GetDeletionTimestamp() != nil:
		return verdict{deleted: live.GetUID()}
	case e.Kind == "Namespace":
		running, err := a.Running(ctx, e.Name)
		if err != nil {
			return verdict{err: fmt.Errorf("looking for pods in it: %w", err)}
		}
		if running {
			return verdict{kept: "is kept until the pods in it have ended"}
		}
	}
	return a.delete(ctx, e, live)
}

// delete deletes exactly the object that was looked at.
func (a *Applier) delete(ctx context.Context, e Entry, live *unstructured.Unstructured) verdict {
	uid := live.GetUID()
	err := a.Client.Delete(ctx, live, client.Preconditions{UID: &uid})
	switch {
	case missing(err):
		return verdict{}
	case apierrors.IsConflict(err):
		return verdict{err: fmt.Errorf("it was made again meanwhile: %w", err)}
	case err != nil:
		return verdict{err: a.explain(ctx, "delete", e, err)}
	}
	return verdict{deleted: uid}
}
