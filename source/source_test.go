package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/check"
	"github.com/reservation-operator/reservation-operator/source/fetch"
	"github.com/reservation-operator/reservation-operator/source/render"
)

const reservation = `apiVersion: scheduling.coreweave.cloud/v1alpha1
kind: Reservation
metadata: {name: foo}
spec: {tenant: foo, namespaces: [foo], reservedNodes: [gpu-01]}
---
apiVersion: v1
kind: Namespace
metadata: {name: foo}
`

// chain reads a commit that holds one file, and lets a test replace steps.
func chain(file string, change func(*Chain)) Chain {
	c := Chain{
		Look: func(context.Context, fetch.Remote) (fetch.Head, error) {
			return fetch.Head{Branch: "main", Hash: "1"}, nil
		},
		Fetch: func(context.Context, fetch.Remote, fetch.Head, fetch.Limits) (*fetch.Commit, error) {
			return &fetch.Commit{Revision: "main@sha1:1", Tree: fstest.MapFS{"tenants/foo.yaml": {Data: []byte(file)}}}, nil
		},
	}
	if change != nil {
		change(&c)
	}
	return c
}

func TestLoadAndCheck(t *testing.T) {
	loaded, err := chain(reservation, nil).Load(t.Context(), Request{Path: "tenants"}, fetch.Head{})
	require.NoError(t, err)
	require.Equal(t, "main@sha1:1", loaded.Commit.Revision)
	require.Len(t, loaded.Objects, 2)
	require.Equal(t, "tenants/foo.yaml", loaded.Objects[0].File)
	require.Empty(t, loaded.Check(check.Set{Source: "tenants"}))
	findings := loaded.Check(check.Set{Live: check.Live{Owners: map[check.Key]string{{Kind: "Namespace", Name: "foo"}: "other"}}})
	require.True(t, render.Rejected(findings))
}

func TestLoadStopsAtFindings(t *testing.T) {
	refuse := func(context.Context, *fetch.Commit) ([]render.Finding, error) {
		return []render.Finding{{Message: "not signed"}}, nil
	}
	loaded, err := chain(reservation, func(c *Chain) {
		c.Verify = refuse
		c.Render = func(context.Context, fs.FS, string, render.Limits) ([]render.Object, []render.Finding, error) {
			panic("a commit that is not verified is not rendered")
		}
	}).Load(t.Context(), Request{}, fetch.Head{})
	require.NoError(t, err)
	require.Equal(t, []render.Finding{{Message: "not signed"}}, loaded.Check(check.Set{}))
}

func TestErrors(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		change      func(*Chain)
		path        string
		wantReason  string
		wantStalled bool
		wantMessage string
	}{
		"no such folder": {path: "nowhere", wantReason: v1alpha1.ReasonPathNotFound, wantStalled: true, wantMessage: `main@sha1:1 has no folder "nowhere"`},
		"a fetch that a person must cure": {
			change: func(c *Chain) {
				c.Fetch = func(context.Context, fetch.Remote, fetch.Head, fetch.Limits) (*fetch.Commit, error) {
					return nil, &fetch.Error{Reason: fetch.CommitTooLarge, Message: "too large", Stalled: true}
				}
			}, wantReason: v1alpha1.ReasonCommitTooLarge, wantStalled: true, wantMessage: "too large"},
		"a fetch that may pass": {
			change: func(c *Chain) {
				c.Fetch = func(context.Context, fetch.Remote, fetch.Head, fetch.Limits) (*fetch.Commit, error) { return nil, boom }
			}, wantReason: v1alpha1.ReasonFetchFailed, wantMessage: "boom"},
		"a rendering that failed": {
			change: func(c *Chain) {
				c.Render = func(context.Context, fs.FS, string, render.Limits) ([]render.Object, []render.Finding, error) {
					return nil, nil, boom
				}
			}, wantReason: v1alpha1.ReasonRenderFailed, wantMessage: "rendering main@sha1:1: boom"},
		"a rendering that does not end": {
			change: func(c *Chain) {
				c.RenderTimeout = time.Millisecond
				c.Render = func(ctx context.Context, _ fs.FS, _ string, _ render.Limits) ([]render.Object, []render.Finding, error) {
					<-ctx.Done()
					return nil, nil, ctx.Err()
				}
			}, wantReason: v1alpha1.ReasonRenderFailed, wantStalled: true, wantMessage: "rendering main@sha1:1 took longer than 1ms"},
		"a rendering that waited for another": {
			change: func(c *Chain) {
				c.RenderTimeout = time.Millisecond
				c.Render = func(ctx context.Context, _ fs.FS, _ string, _ render.Limits) ([]render.Object, []render.Finding, error) {
					<-ctx.Done()
					return nil, nil, fmt.Errorf("%w: %w", render.ErrBusy, ctx.Err())
				}
			}, wantReason: v1alpha1.ReasonRenderFailed, wantMessage: "rendering main@sha1:1: kustomize is busy with another commit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := chain(reservation, tc.change).Load(t.Context(), Request{Path: tc.path}, fetch.Head{})
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, tc.wantReason, e.Reason)
			require.Equal(t, tc.wantStalled, e.Stalled)
			require.Contains(t, e.Error(), tc.wantMessage)
			require.Error(t, errors.Unwrap(err))
		})
	}
}

func TestHead(t *testing.T) {
	head, err := chain("", nil).Head(t.Context(), Request{})
	require.NoError(t, err)
	require.Equal(t, "main@sha1:1", head.Revision())

	_, err = chain("", func(c *Chain) {
		c.Look = func(ctx context.Context, _ fetch.Remote) (fetch.Head, error) {
			<-ctx.Done()
			return fetch.Head{}, &fetch.Error{Reason: fetch.RepositoryUnreachable, Message: "no answer", Err: ctx.Err()}
		}
	}).Head(t.Context(), Request{Timeout: time.Millisecond})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, v1alpha1.ReasonRepositoryUnreachable, e.Reason)
}

func TestRequestOf(t *testing.T) {
	s := &v1alpha1.ReservationSource{Spec: v1alpha1.ReservationSourceSpec{
		URL: "https://example.com/x.git", Path: "tenants", Ref: &v1alpha1.GitReference{Branch: "prod"},
		Timeout: &metav1.Duration{Duration: time.Second},
	}}
	require.Equal(t, Request{
		Remote: fetch.Remote{URL: "https://example.com/x.git", Branch: "prod", Secret: map[string][]byte{"username": []byte("u")}},
		Path:   "tenants", Timeout: time.Second,
	}, RequestOf(s, map[string][]byte{"username": []byte("u")}))
}

// The reasons of fetch are the API's.
func TestFetchReasonsAreTheAPIs(t *testing.T) {
	known := map[string]bool{}
	for _, reason := range []string{
		v1alpha1.ReasonInvalidURL, v1alpha1.ReasonInvalidCredentials, v1alpha1.ReasonAuthenticationFailed, v1alpha1.ReasonRepositoryUnreachable,
		v1alpha1.ReasonRepositoryNotFound, v1alpha1.ReasonRepositoryEmpty, v1alpha1.ReasonBranchNotFound, v1alpha1.ReasonHostKeyMismatch,
		v1alpha1.ReasonUnknownHost, v1alpha1.ReasonUnsupportedObjectFormat, v1alpha1.ReasonCommitTooLarge, v1alpha1.ReasonFetchFailed,
	} {
		known[reason] = true
	}
	for _, reason := range fetch.Reasons() {
		require.True(t, known[string(reason)], reason)
	}
}
