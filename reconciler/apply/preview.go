package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/check"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// Preview is what a commit would do, asked of the API server.
type Preview struct {
	// Steps are all objects, in the order of writing.
	Steps []Step
	// Findings are what the API server refuses, with field and reason, and warnings about fields that others hold;
	// sorted.
	Findings []render.Finding
}

// Count returns how many steps have a verb.
func (p *Preview) Count(v Verb) int {
	n := 0
	for _, s := range p.Steps {
		if s.Verb == v {
			n++
		}
	}
	return n
}

// Preview tries every object by a dry run and compares the answer with what lives. It writes nothing. Objects that
// findings reject already are not worth trying: the caller leaves them out. An error is a *Blocked, or one that may
// pass; there is no preview then.
func (a *Applier) Preview(ctx context.Context, c Commit, objects []render.Object, live map[Entry]*unstructured.Unstructured) (*Preview, error) {
	p := &Preview{}
	made := map[string]bool{} // namespaces that the commit makes
	for _, o := range inOrder(objects) {
		step := Step{Object: o, Live: live[EntryOf(o.Unstructured)]}
		if o.GetKind() == "Namespace" && step.Live == nil {
			made[o.GetName()] = true
		}
		p.Steps = append(p.Steps, step)
	}
	errs := make([]error, len(p.Steps))
	a.parallel(len(p.Steps), func(i int) { errs[i] = a.try(ctx, c, &p.Steps[i], made) })
	for i := range p.Steps {
		if errs[i] == nil {
			p.Findings = append(p.Findings, foreign(p.Steps[i])...)
			continue
		}
		findings, err := a.judge(ctx, p.Steps[i], errs[i])
		if err != nil {
			return nil, err
		}
		p.Findings = append(p.Findings, findings...)
	}
	check.Sort(p.Findings)
	return p, nil
}

// try asks the API server what would become of one object.
func (a *Applier) try(ctx context.Context, c Commit, s *Step, made map[string]bool) error {
	switch live := s.Live; {
	case live == nil:
		s.Verb = Create
	case live.GetDeletionTimestamp() != nil:
		s.Verb, s.Then = Await, live
		return nil
	case live.GetAnnotations()[v1alpha1.AnnotationReconcile] == "disabled":
		s.Verb, s.Then = Skip, live
		return nil
	default:
		s.Verb = Change
		if revision, ok := live.GetAnnotations()[v1alpha1.AnnotationRevision]; ok {
			c.Revision = revision // an unchanged object keeps the revision that last changed it
		}
	}
	object := prepared(s.Object.Unstructured, c)
	namespace, name := object.GetNamespace(), object.GetName()
	if made[namespace] {
		// The namespace is not there yet. The operator's own may have an object of that name, which is no business of
		// the commit.
		object.SetNamespace(a.Namespace)
		object.SetName(trialName(s.Entry()))
	}
	err := a.tryApply(ctx, object, s.Live)
	switch {
	case isTerminating(err):
		s.Verb, s.Then = Await, s.Live
		return nil
	case err != nil:
		return err
	}
	object.SetNamespace(namespace)
	object.SetName(name)
	if s.Then = object; s.Live != nil && same(s.Live, object) {
		s.Verb, s.Then = Keep, s.Live
	}
	return nil
}

// trialName is the name under which an object is tried in the operator's namespace.
func trialName(e Entry) string {
	sum := sha256.Sum256([]byte(e.Kind + "/" + e.Namespace + "/" + e.Name))
	return "trial-" + hex.EncodeToString(sum[:8])
}

// Explain says in a sentence, for people, what a step waits for or why it is skipped; empty for the other verbs.
func (s Step) Explain() string {
	name := Name(s.Entry())
	switch s.Verb {
	case Skip:
		return fmt.Sprintf("%s is left as it is, because it is annotated %s=disabled", name, v1alpha1.AnnotationReconcile)
	case Await:
		return fmt.Sprintf("%s is being deleted and is made again when it is gone", name)
	}
	return ""
}

// Name returns an entry as people write it: "Reservation foo", "ResourceQuota tenant-foo/quota".
func Name(e Entry) string {
	if e.Namespace != "" {
		return e.Kind + " " + e.Namespace + "/" + e.Name
	}
	return e.Kind + " " + e.Name
}
