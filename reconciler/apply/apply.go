package apply

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// Applier reads and writes the objects of sources. Its methods may be called from several goroutines at once.
type Applier struct {
	// Client writes, and knows which kinds there are.
	Client client.Client
	// Live reads past every cache.
	Live client.Reader
	// Namespace is the operator's own, in which objects are tried whose namespace does not exist yet.
	Namespace string
	// User is whom the API server knows the operator as; empty is the service account of the installation. It is
	// only named in messages.
	User string
	// Running reports whether a namespace has pods that have not ended.
	Running func(ctx context.Context, namespace string) (bool, error)
	// Concurrency is how many requests are under way at once; 0 is 8.
	Concurrency int
}

// Commit says for whom objects are written.
type Commit struct {
	// Source is the name of the ReservationSource.
	Source string
	// Revision is the commit.
	Revision string
}

// Verb says what a commit means for one object.
type Verb string

const (
	// Create: the object does not exist.
	Create Verb = "Create"
	// Change: the object differs.
	Change Verb = "Change"
	// Keep: the object is as the commit says; nothing is written.
	Keep Verb = "Keep"
	// Skip: somebody told the operator to leave the object as it is (v1alpha1.AnnotationReconcile).
	Skip Verb = "Skip"
	// Await: the object, or its namespace, is being deleted and is made again when it is gone.
	Await Verb = "Await"
)

// Step is one object of a commit.
type Step struct {
	// Object is the object as the commit has it.
	Object render.Object
	// Verb is what is to be done.
	Verb Verb
	// Live is the object as it is; nil if there is none.
	Live *unstructured.Unstructured
	// Then is the object as it would be: the dry run's answer, and Live where nothing is to be done. Nil if the
	// object was refused.
	Then *unstructured.Unstructured
}

// Entry names the step's object.
func (s Step) Entry() Entry { return EntryOf(s.Object.Unstructured) }

// Result is what became of the objects of a commit, each list in the order of writing.
type Result struct {
	// Created and Changed were written; Kept were as they should be already.
	Created, Changed, Kept []Entry
	// Skipped are left alone on somebody's word, Awaited are still being deleted.
	Skipped, Awaited []Entry
	// Failed could not be written.
	Failed []Failure
	// States holds each object as the API server now has it, without those that failed or are awaited.
	States map[Entry]*unstructured.Unstructured
}

// Failure is one object that could not be written.
type Failure struct {
	// Finding names the object and says why.
	Finding render.Finding
	// Err is the API server's error.
	Err error
}

// Gather reads the objects of a commit as they live. Objects that do not exist are not in the answer. An error is a
// *Blocked, or one that may pass.
func (a *Applier) Gather(ctx context.Context, objects []render.Object) (map[Entry]*unstructured.Unstructured, error) {
	return a.Lookup(ctx, EntriesOf(objects))
}

// Lookup is Gather for objects that are known by name.
func (a *Applier) Lookup(ctx context.Context, entries []Entry) (map[Entry]*unstructured.Unstructured, error) {
	found := make([]*unstructured.Unstructured, len(entries))
	errs := make([]error, len(entries))
	a.parallel(len(entries), func(i int) { found[i], errs[i] = a.get(ctx, entries[i]) })
	live := make(map[Entry]*unstructured.Unstructured, len(entries))
	for i, e := range entries {
		if errs[i] != nil {
			return nil, a.explain(ctx, "get", e, errs[i])
		}
		if found[i] != nil {
			live[e] = found[i]
		}
	}
	return live, nil
}

// Apply writes what differs: Namespaces, then quotas and limits, then Reservations, then ReservationBindings. It
// goes on after a failure, and blocks until all is tried or ctx is done.
func (a *Applier) Apply(ctx context.Context, c Commit, p *Preview) Result {
	states := make([]*unstructured.Unstructured, len(p.Steps))
	errs := make([]error, len(p.Steps))
	for from := 0; from < len(p.Steps); {
		to := from
		for to < len(p.Steps) && order(p.Steps[to].Object.GetKind()) == order(p.Steps[from].Object.GetKind()) {
			to++
		}
		group := p.Steps[from:to]
		a.parallel(len(group), func(i int) { states[from+i], errs[from+i] = a.write(ctx, c, group[i]) })
		from = to
	}
	return a.tally(ctx, p.Steps, states, errs)
}

// write applies one object if that is to be done.
func (a *Applier) write(ctx context.Context, c Commit, s Step) (*unstructured.Unstructured, error) {
	if s.Verb != Create && s.Verb != Change {
		return s.Live, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	object := prepared(s.Object.Unstructured, c)
	if err := a.empty(ctx, object, s.Live); err != nil {
		return nil, err
	}
	if err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.FieldManagerSource)); err != nil {
		return nil, err
	}
	if err := a.dropEmpty(ctx, s.Object.Unstructured, object); err != nil {
		return nil, err
	}
	return object, a.takeOver(ctx, object)
}

func (a *Applier) tally(ctx context.Context, steps []Step, states []*unstructured.Unstructured, errs []error) Result {
	r := Result{States: map[Entry]*unstructured.Unstructured{}}
	for i, s := range steps {
		e := s.Entry()
		switch {
		case s.Verb == Await || isTerminating(errs[i]):
			r.Awaited = append(r.Awaited, e)
			continue
		case errs[i] != nil:
			r.Failed = append(r.Failed, Failure{Finding: a.failure(ctx, s, errs[i]), Err: errs[i]})
			continue
		case s.Verb == Create:
			r.Created = append(r.Created, e)
		case s.Verb == Change:
			r.Changed = append(r.Changed, e)
		case s.Verb == Keep:
			r.Kept = append(r.Kept, e)
		case s.Verb == Skip:
			r.Skipped = append(r.Skipped, e)
		}
		r.States[e] = states[i]
	}
	return r
}

// prepared returns the object as it is applied for a commit: labelled and annotated, and nothing else added.
func prepared(o *unstructured.Unstructured, c Commit) *unstructured.Unstructured {
	out := o.DeepCopy()
	labels := out.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LabelSource] = c.Source
	out.SetLabels(labels)
	annotations := out.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationRevision] = c.Revision
	out.SetAnnotations(annotations)
	return out
}

// inOrder returns the objects in the order of writing.
func inOrder(objects []render.Object) []render.Object {
	out := slices.Clone(objects)
	slices.SortStableFunc(out, func(a, b render.Object) int {
		return cmp.Or(order(a.GetKind())-order(b.GetKind()), Compare(EntryOf(a.Unstructured), EntryOf(b.Unstructured)))
	})
	return out
}

// get returns a live object, or nil if there is none.
func (a *Applier) get(ctx context.Context, e Entry) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(groupVersionKind(e))
	err := a.Live.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Name}, o)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// parallel calls f(0) … f(n-1), a few at once, and returns when all have returned.
func (a *Applier) parallel(n int, f func(i int)) {
	limit := a.Concurrency
	if limit <= 0 {
		limit = 8
	}
	// Not with the caller's context: what was not tried must not look like what went well.
	workqueue.ParallelizeUntil(context.Background(), limit, n, f)
}
