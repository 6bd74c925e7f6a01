package fetch

import (
	"context"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/gitkit"
	"github.com/fluxcd/pkg/gittestserver"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // the test server's
	(&gittestserver.GitServer{}).PublicKeyLookupFunc(func(key string) (*gitkit.PublicKey, error) {
		if _, refused := refusedKeys.Load(strings.TrimSpace(key)); refused {
			return nil, os.ErrPermission
		}
		return &gitkit.PublicKey{Id: "test"}, nil
	})
	os.Exit(m.Run())
}

// refusedKeys are public keys that the test servers do not let in. (The test
// server has one lookup function for the whole process.)
var refusedKeys sync.Map

// repo is a bare repository below a server's root, and a work tree that pushes
// to it, both driven by the real git.
type repo struct {
	t    *testing.T
	bare string
	work string
}

// newRepo makes root/name with branch main, without a commit.
func newRepo(t *testing.T, root, name string, initArgs ...string) *repo {
	t.Helper()
	r := &repo{t: t, bare: filepath.Join(root, name), work: t.TempDir()}
	r.in(root, append([]string{"init", "-q", "--bare", "-b", "main", r.bare}, initArgs...)...)
	r.git(append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	r.git("remote", "add", "origin", r.bare)
	return r
}

func (r *repo) in(dir string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Grace", "GIT_COMMITTER_EMAIL=grace@example.com",
		"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-02-03T04:05:06Z")
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// git runs in the work tree.
func (r *repo) git(args ...string) string {
	r.t.Helper()
	return r.in(r.work, args...)
}

func (r *repo) write(name, content string) {
	r.t.Helper()
	file := filepath.Join(r.work, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(r.t, os.WriteFile(file, []byte(content), 0o644))
}

// push commits all that was written, pushes the current branch and returns the
// commit's hash.
func (r *repo) push(message string) string {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", message)
	r.git("push", "-q", "-f", "origin", "HEAD")
	return r.git("rev-parse", "HEAD")
}

// withCommit is a repository with one file on main.
func withCommit(t *testing.T, root, name string) (*repo, string) {
	t.Helper()
	r := newRepo(t, root, name)
	r.write("tenants/foo/reservation.yaml", "kind: Reservation\n")
	return r, r.push("first")
}

func serveHTTP(t *testing.T, root string, configure ...func(*gittestserver.GitServer)) string {
	t.Helper()
	s := gittestserver.NewGitServer(root)
	for _, c := range configure {
		c(s)
	}
	require.NoError(t, s.StartHTTP())
	t.Cleanup(s.StopHTTP)
	return s.HTTPAddress()
}

func withAuth(username, password string) func(*gittestserver.GitServer) {
	return func(s *gittestserver.GitServer) { s.Auth(username, password) }
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// fetchHead looks and fetches, as a caller does.
func fetchHead(t *testing.T, r Remote) *Commit {
	t.Helper()
	head, err := Look(testContext(t), r)
	require.NoError(t, err)
	commit, err := Fetch(testContext(t), r, head, Limits{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, commit.Close()) })
	require.Equal(t, head.Revision(), commit.Revision)
	return commit
}

// requireError checks the promises that every error of the package makes, and
// returns it.
func requireError(t *testing.T, err error, want Reason) *Error {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, want, e.Reason, e.Message)
	require.NotEmpty(t, e.Message)
	require.NotContains(t, e.Message, "\n")
	require.LessOrEqual(t, len(e.Message), maxMessage)
	return e
}
