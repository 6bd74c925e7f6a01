package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"golang.org/x/crypto/ssh"
)

// hostPort is the ssh server to dial.
func (a address) hostPort() string { return net.JoinHostPort(a.host, a.port) }

// sshLink runs git-upload-pack on an ssh server.
type sshLink struct {
	address     address
	credentials credentials

	conn    net.Conn
	session *ssh.Session
	stdin   io.WriteCloser
	stdout  io.Reader
	stderr  prefixWriter

	uploaded, explained bool
	// stop ends the watch over the context.
	stop func() bool
}

func (l *sshLink) advertise(ctx context.Context) (io.Reader, error) {
	client, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	session, err := client.NewSession()
	if err != nil {
		return nil, err
	}
	session.Stderr = &l.stderr
	// Neither fails on a session that has not been started.
	l.stdin, _ = session.StdinPipe()
	l.stdout, _ = session.StdoutPipe()
	if err := session.Start(uploadPack + " " + quote(l.address.path)); err != nil {
		return nil, fail(FetchFailed, "%s does not run %s: %v", l.address.shown, uploadPack, err)
	}
	l.session = session
	return l.stdout, nil
}

// connect dials and logs in. From the dial on, the end of ctx closes the
// connection, which ends whatever waits on it.
func (l *sshLink) connect(ctx context.Context) (*ssh.Client, error) {
	keys, err := readKnownHosts(l.address, l.credentials.knownHosts)
	if err != nil {
		return nil, err
	}
	addr := l.address.hostPort()
	if l.conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", addr); err != nil {
		return nil, fail(RepositoryUnreachable, cannotReach, l.address.shown, err)
	}
	l.stop = context.AfterFunc(ctx, func() { l.conn.Close() })
	conn, channels, requests, err := ssh.NewClientConn(l.conn, addr, &ssh.ClientConfig{
		User:              l.address.user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(l.credentials.signer)},
		HostKeyCallback:   keys.check,
		HostKeyAlgorithms: keys.algorithms,
	})
	if err != nil {
		return nil, l.handshakeFailed(err)
	}
	return ssh.NewClient(conn, channels, requests), nil
}

func (l *sshLink) handshakeFailed(err error) error {
	where := l.address.shown
	var known *Error
	var noCommon *ssh.AlgorithmNegotiationError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &noCommon) && strings.Contains(noCommon.What, "host key"):
		return fail(HostKeyMismatch, "%s has host keys of the kinds %s, but known_hosts in the Secret only has %s for it: if the host has published a new key, add it",
			where, strings.Join(noCommon.RequestedAlgorithms, ", "), strings.Join(noCommon.SupportedAlgorithms, ", "))
	case strings.Contains(err.Error(), "unable to authenticate"):
		// The package has no type for it on the client's side.
		return fail(AuthenticationFailed, "%s refuses the identity in the Secret (public key %s) for user %s: add it there as a deploy key",
			where, ssh.FingerprintSHA256(l.credentials.signer.PublicKey()), l.address.user)
	default:
		return fail(RepositoryUnreachable, "%s does not complete the ssh handshake: %v: it is tried again; check that an ssh server answers at that port", where, err)
	}
}

func (l *sshLink) upload(_ context.Context, body []byte) (io.Reader, error) {
	l.uploaded = true
	if _, err := l.stdin.Write(body); err != nil {
		return nil, l.explain(err)
	}
	return l.stdout, l.stdin.Close()
}

// notFound is what servers say of a repository that is not there or not to be
// seen: git itself, GitHub, GitLab, Bitbucket, Gitea.
var notFound = []string{
	"not found", "could not be found", "does not exist", "no such repository",
	"does not appear to be a git repository", "not a git repository", "access denied", "permission",
}

// patience is how long a server that has already failed may take to say why.
const patience = 2 * time.Second

// explain adds what the server wrote to stderr, which is where the reason is
// when stdout ends early.
func (l *sshLink) explain(err error) error {
	if l.session != nil && !l.explained {
		l.explained = true
		l.await()
	}
	said := bounded(oneLine(l.stderr.String()), maxErrorBytes)
	if said == "" {
		return err
	}
	for _, phrase := range notFound {
		if strings.Contains(strings.ToLower(said), phrase) {
			return fail(RepositoryNotFound, "%s is not there, or not for this identity (it says %q): check the URL and the deploy key", l.address.shown, said)
		}
	}
	return fail(FetchFailed, "%s says %q", l.address.shown, said)
}

// await returns when the server's command is over and all of its words have
// arrived, and ends it if that takes too long.
func (l *sshLink) await() {
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, l.stdout)
		_ = l.session.Wait()
	}()
	l.stdin.Close()
	timer := time.AfterFunc(patience, func() { l.conn.Close() })
	defer timer.Stop()
	<-over
}

func (l *sshLink) close() {
	if l.stop != nil {
		l.stop()
	}
	if l.session != nil {
		if !l.uploaded && !l.explained {
			// Without it git-upload-pack notes a broken connection at each look.
			_, _ = l.stdin.Write(pktline.FlushPkt)
		}
		l.session.Close()
	}
	if l.conn != nil {
		l.conn.Close()
	}
}

// quote makes one shell word of s, as git's own sq_quote_buf does.
func quote(s string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(s) + "'"
}
