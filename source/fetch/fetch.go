package fetch

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// Remote says where to look.
type Remote struct {
	// URL is https://, http://, ssh://, scp-like (git@host:path), file:// or an
	// absolute local path. It carries no password: those belong in Secret.
	URL string
	// Branch is the branch's short name ("main", "teams/blue"). Empty means the
	// branch that the remote's HEAD names, followed when it is renamed.
	Branch string
	// Secret is the data of a Secret laid out as Flux does: username and
	// password, or bearerToken; ca.crt; tls.crt and tls.key; identity,
	// known_hosts and password (the identity's passphrase) for ssh. Nil is
	// anonymous.
	Secret map[string][]byte
}

// Head is what a branch pointed to at the moment of the look.
type Head struct {
	// Branch is the branch's short name, also when Remote.Branch was empty.
	Branch string
	// Hash is the commit's full hash in lower-case hex.
	Hash string
}

// Revision is the head as Flux writes it: "main@sha1:<hex>".
func (h Head) Revision() string {
	return h.Branch + "@sha1:" + h.Hash
}

// Look asks the remote, once, where the branch points to. It transfers no
// objects and writes nothing. It blocks until the remote has answered or ctx
// is done, and is safe for concurrent use. Every error is an [*Error].
func Look(ctx context.Context, r Remote) (Head, error) {
	var head Head
	err := r.visit(ctx, func(s source) error {
		branches, err := s.branches(ctx)
		if err != nil {
			return err
		}
		head, err = branches.pick(r.Branch, s.where())
		return err
	})
	return head, err
}

// Fetch gets the newest commit of branch h.Branch without its history.
//
// If the branch has moved since the look that gave h, the newer commit is
// returned: only the head of a branch is ever applied, and Commit.Revision
// says which one it was. Nothing is compared with an earlier commit, so a
// branch that was forced back is like any other. The caller closes the Commit.
// Fetch blocks until done or ctx is, and is safe for concurrent use. Every
// error is an [*Error].
func Fetch(ctx context.Context, r Remote, h Head, l Limits) (*Commit, error) {
	l = l.withDefaults()
	var commit *Commit
	err := r.visit(ctx, func(s source) error {
		branches, err := s.branches(ctx)
		if err != nil {
			return err
		}
		head, err := branches.pick(h.Branch, s.where())
		if err != nil {
			return err
		}
		objects, err := s.objects(ctx, plumbing.NewHash(head.Hash), l)
		if err != nil {
			return err
		}
		commit, err = checkout(ctx, objects, head, l, s.where())
		return err
	})
	return commit, err
}

// source is one remote, opened for one visit. All of its methods give up when
// their context is done.
type source interface {
	// where is the remote's address as it may be shown.
	where() string
	// branches asks what there is. It is called once, and first.
	branches(context.Context) (branches, error)
	// objects returns a store in which the commit, its trees and blobs can be
	// found, if the remote has them.
	objects(context.Context, plumbing.Hash, Limits) (storer.EncodedObjectStorer, error)
	close()
}

// visit opens the remote, calls f, closes it, and makes an *Error of whatever
// went wrong.
func (r Remote) visit(ctx context.Context, f func(source) error) error {
	where := redact(r.URL)
	s, err := r.open()
	if err == nil {
		where = s.where()
		err = f(s)
		s.close()
	}
	return finish(ctx, err, where, secretValues(r.Secret))
}

func (r Remote) open() (source, error) {
	a, err := parseURL(r.URL)
	if err != nil {
		return nil, err
	}
	c, err := readSecret(a, r.Secret)
	if err != nil {
		return nil, err
	}
	switch a.scheme {
	case schemeLocal:
		return &local{address: a}, nil
	case schemeSSH:
		return &wire{link: &sshLink{address: a, credentials: c}, address: a}, nil
	default:
		return &wire{link: newHTTPLink(a, c), address: a}, nil
	}
}
