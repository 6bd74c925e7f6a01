package fetch

import (
	"context"
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
	return Head{}, &Error{Reason: FetchFailed, Message: "not built yet"}
}

// Fetch gets the newest commit of branch h.Branch without its history.
//
// If the branch has moved since the look that gave h, the newer commit is
// returned: only the head of a branch is ever applied, and Commit.Revision
// says which one it was. The caller closes the Commit. Fetch blocks until done
// or ctx is, and is safe for concurrent use. Every error is an [*Error].
func Fetch(ctx context.Context, r Remote, h Head, l Limits) (*Commit, error) {
	return nil, &Error{Reason: FetchFailed, Message: "not built yet"}
}
