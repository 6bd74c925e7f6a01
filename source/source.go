package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/check"
	"github.com/reservation-operator/reservation-operator/source/fetch"
	"github.com/reservation-operator/reservation-operator/source/render"
	"github.com/reservation-operator/reservation-operator/source/verify"
)

// Request says which folder of which repository.
type Request struct {
	// Remote is the repository and its credentials.
	Remote fetch.Remote
	// Path is the folder to render; empty is the repository's root.
	Path string
	// Timeout bounds each exchange with the repository; 0 is 60 s.
	Timeout time.Duration
}

// RequestOf returns the request that a ReservationSource stands for, with the data of its Secret (nil for none).
func RequestOf(s *v1alpha1.ReservationSource, secret map[string][]byte) Request {
	r := Request{
		Remote: fetch.Remote{URL: s.Spec.URL, Branch: s.Branch(), Secret: secret},
		Path:   s.Spec.Path,
	}
	if s.Spec.Timeout != nil {
		r.Timeout = s.Spec.Timeout.Duration
	}
	return r
}

// Loaded is a commit that was fetched, verified and rendered.
type Loaded struct {
	// Commit describes the commit. Its files are gone.
	Commit *fetch.Commit
	// Path is the folder that was rendered.
	Path string
	// Objects are all that it renders to; incomplete when Findings reject it.
	Objects []render.Object
	// Findings are those of verify and render, in their order.
	Findings []render.Finding
}

// Error says why there is nothing to check. It is never the commit's content, and nothing may be pruned on it.
type Error struct {
	// Reason is one of those in api/v1alpha1/reasons.go.
	Reason string
	// Message is one bounded line without secrets.
	Message string
	// Stalled says that a person must act; looking again at the ordinary interval is all that helps.
	Stalled bool
	// Err is the cause, or nil.
	Err error
}

// Error is the Message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Chain is the way from a repository to objects. The zero Chain works: a nil step is the real one.
type Chain struct {
	Look   func(context.Context, fetch.Remote) (fetch.Head, error)
	Fetch  func(context.Context, fetch.Remote, fetch.Head, fetch.Limits) (*fetch.Commit, error)
	Verify verify.Verifier
	Render func(ctx context.Context, tree fs.FS, path string, l render.Limits) ([]render.Object, []render.Finding, error)

	FetchLimits  fetch.Limits
	RenderLimits render.Limits
	// RenderTimeout bounds the rendering of a commit; 0 is a minute. What the limits let through takes a few seconds:
	// this is for what they do not foresee.
	RenderTimeout time.Duration
}

// Head asks the repository where its branch points to, and transfers nothing. Every error is an [*Error].
func (c Chain) Head(ctx context.Context, r Request) (fetch.Head, error) {
	ctx, cancel := r.bound(ctx)
	defer cancel()
	head, err := c.withDefaults().Look(ctx, r.Remote)
	return head, fetchError(err)
}

// Load fetches, verifies and renders the branch's newest commit, which may be newer than the head. Findings that
// reject the commit are part of the answer, and end the way there. Every error is an [*Error]. It blocks until done
// or ctx is, leaves no files behind and is safe for concurrent use.
func (c Chain) Load(ctx context.Context, r Request, head fetch.Head) (*Loaded, error) {
	c = c.withDefaults()
	commit, err := c.fetch(ctx, r, head)
	if err != nil {
		return nil, fetchError(err)
	}
	defer commit.Close()
	loaded := &Loaded{Commit: commit, Path: r.Path}
	if loaded.Findings, err = c.Verify(ctx, commit); err != nil {
		return nil, &Error{Reason: v1alpha1.ReasonFetchFailed, Message: fmt.Sprintf("verifying %s: %v", commit.Revision, err), Err: err}
	}
	if render.Rejected(loaded.Findings) {
		return loaded, nil
	}
	objects, findings, err := c.render(ctx, commit, r.Path)
	if err != nil {
		return nil, err
	}
	loaded.Objects, loaded.Findings = objects, append(loaded.Findings, findings...)
	return loaded, nil
}

// Check returns every finding about the commit: those that it was loaded with, and, unless they reject it already,
// those of the whole set, for which the caller fills in all of s but Objects and Path.
func (l *Loaded) Check(s check.Set) []render.Finding {
	if render.Rejected(l.Findings) {
		return l.Findings
	}
	s.Objects, s.Path = l.Objects, l.Path
	return append(l.Findings[:len(l.Findings):len(l.Findings)], check.Check(s)...)
}

func (c Chain) fetch(ctx context.Context, r Request, head fetch.Head) (*fetch.Commit, error) {
	ctx, cancel := r.bound(ctx)
	defer cancel()
	return c.Fetch(ctx, r.Remote, head, c.FetchLimits)
}

func (c Chain) render(parent context.Context, commit *fetch.Commit, path string) ([]render.Object, []render.Finding, error) {
	ctx, cancel := context.WithTimeout(parent, c.RenderTimeout)
	defer cancel()
	objects, findings, err := c.Render(ctx, commit.Tree, path, c.RenderLimits)
	switch {
	case err == nil:
		return objects, findings, nil
	case ctx.Err() != nil && parent.Err() == nil && !errors.Is(err, render.ErrBusy):
		return nil, nil, &Error{
			Reason: v1alpha1.ReasonRenderFailed, Stalled: true, Err: err,
			Message: fmt.Sprintf("rendering %s took longer than %s and was given up: make its kustomizations smaller or "+
				"simpler, or write plain YAML; nothing was changed", commit.Revision, c.RenderTimeout),
		}
	}
	return nil, nil, renderError(err, commit.Revision, path)
}

func (r Request) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	return context.WithTimeout(ctx, timeout)
}

func (c Chain) withDefaults() Chain {
	if c.Look == nil {
		c.Look = fetch.Look
	}
	if c.Fetch == nil {
		c.Fetch = fetch.Fetch
	}
	if c.Verify == nil {
		c.Verify = verify.Accept
	}
	if c.Render == nil {
		c.Render = render.Render
	}
	if c.RenderTimeout <= 0 {
		c.RenderTimeout = time.Minute
	}
	return c
}

func fetchError(err error) error {
	if err == nil {
		return nil
	}
	var e *fetch.Error
	if !errors.As(err, &e) {
		return &Error{Reason: v1alpha1.ReasonFetchFailed, Message: err.Error(), Err: err}
	}
	return &Error{Reason: string(e.Reason), Message: e.Message, Stalled: e.Stalled, Err: err}
}

func renderError(err error, revision, path string) error {
	if errors.Is(err, render.ErrPathNotFound) {
		return &Error{
			Reason:  v1alpha1.ReasonPathNotFound,
			Message: fmt.Sprintf("%s has no folder %q: correct spec.path, or add the folder; nothing was changed", revision, path),
			Stalled: true, Err: err,
		}
	}
	return &Error{Reason: v1alpha1.ReasonRenderFailed, Message: fmt.Sprintf("rendering %s: %v", revision, err), Err: err}
}
