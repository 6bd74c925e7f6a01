package fetch

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/gittestserver"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestFetch(t *testing.T) {
	root := t.TempDir()
	r, _ := withCommit(t, root, "org/tenants.git")
	r.write("README.md", "hello\n")
	hash := r.push("second\n\nwith a body")
	address := serveHTTP(t, root)
	closed := serveHTTP(t, root, withAuth("ada", "s3cret"))
	login := map[string][]byte{keyUsername: []byte("ada"), keyPassword: []byte("s3cret")}

	for name, remote := range map[string]Remote{
		"http":                       {URL: address + "/org/tenants.git"},
		"http, with a slash":         {URL: address + "/org/tenants.git/"},
		"http, with a branch":        {URL: address + "/org/tenants.git", Branch: "main"},
		"http, branch by full name":  {URL: address + "/org/tenants.git", Branch: "refs/heads/main"},
		"http, with a password":      {URL: closed + "/org/tenants.git", Secret: login},
		"http, password and newline": {URL: closed + "/org/tenants.git", Secret: map[string][]byte{keyUsername: []byte("ada\n"), keyPassword: []byte("s3cret\n")}},
		"a folder":                   {URL: r.bare},
		"file://":                    {URL: "file://" + r.bare},
		"a folder with a work tree":  {URL: r.work},
	} {
		t.Run(name, func(t *testing.T) {
			commit := fetchHead(t, remote)
			require.Equal(t, "main@sha1:"+hash, commit.Revision)
			require.Equal(t, hash, commit.Hash)
			require.Equal(t, "main", commit.Branch)
			require.Equal(t, "Ada", commit.Author)
			require.Equal(t, "ada@example.com", commit.Email)
			require.Equal(t, time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), commit.Time.UTC())
			require.Equal(t, "second", commit.Subject)
			require.Equal(t, "second\n\nwith a body\n", commit.Message)
			require.Empty(t, commit.Reverts)
			require.Equal(t, []string{".", "README.md", "tenants", "tenants/foo", "tenants/foo/reservation.yaml"}, list(t, commit.Tree))
			content, err := fs.ReadFile(commit.Tree, "tenants/foo/reservation.yaml")
			require.NoError(t, err)
			require.Equal(t, "kind: Reservation\n", string(content))
		})
	}
}

func list(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var names []string
	require.NoError(t, fs.WalkDir(tree, ".", func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	}))
	return names
}

func TestLookTransfersNoObjects(t *testing.T) {
	root := t.TempDir()
	withCommit(t, root, "tenants.git")
	var mu sync.Mutex
	var seen []string
	address := serveHTTP(t, root, func(s *gittestserver.GitServer) {
		s.AddHTTPMiddlewares(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen = append(seen, r.Method+" "+r.URL.Path)
				mu.Unlock()
				next.ServeHTTP(w, r)
			})
		})
	})
	_, err := Look(testContext(t), Remote{URL: address + "/tenants.git"})
	require.NoError(t, err)
	require.Equal(t, []string{"GET /tenants.git/info/refs"}, seen)
}

func TestFetchTransfersNoHistory(t *testing.T) {
	root := t.TempDir()
	r, _ := withCommit(t, root, "tenants.git")
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 7)
	}
	r.write("large", string(noise))
	r.push("large")
	r.git("rm", "-q", "large")
	r.push("large no more")
	commit, err := Fetch(testContext(t), Remote{URL: serveHTTP(t, root) + "/tenants.git"}, Head{Branch: "main"}, Limits{Bytes: 64 << 10})
	require.NoError(t, err)
	require.NoError(t, commit.Close())
}

func TestCommitClose(t *testing.T) {
	r, _ := withCommit(t, t.TempDir(), "tenants.git")
	commit := fetchHead(t, Remote{URL: r.bare})
	require.DirExists(t, commit.folder)
	require.NoError(t, commit.Close())
	require.NoDirExists(t, commit.folder)
	require.NoError(t, commit.Close(), "twice")
	require.NoError(t, new(Commit).Close(), "of a Commit that a test made")
}

func TestFailedFetchLeavesNothing(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	r, _ := withCommit(t, t.TempDir(), "tenants.git")
	_, err := Fetch(testContext(t), Remote{URL: r.bare}, Head{Branch: "main"}, Limits{Files: 2})
	requireError(t, err, CommitTooLarge)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	for _, entry := range left {
		require.NotContains(t, entry.Name(), "reservation-source")
	}
}

func TestBranches(t *testing.T) {
	root := t.TempDir()
	r, first := withCommit(t, root, "tenants.git")
	r.git("switch", "-q", "-c", "teams/blue")
	second := r.push("second")
	address := serveHTTP(t, root) + "/tenants.git"

	for _, url := range []string{address, r.bare} {
		head, err := Look(testContext(t), Remote{URL: url, Branch: "teams/blue"})
		require.NoError(t, err)
		require.Equal(t, Head{Branch: "teams/blue", Hash: second}, head)
		require.Equal(t, "teams/blue@sha1:"+second, fetchHead(t, Remote{URL: url, Branch: "teams/blue"}).Revision)

		head, err = Look(testContext(t), Remote{URL: url})
		require.NoError(t, err)
		require.Equal(t, Head{Branch: "main", Hash: first}, head, "HEAD")

		_, err = Look(testContext(t), Remote{URL: url, Branch: "teams"})
		e := requireError(t, err, BranchNotFound)
		require.True(t, e.Stalled)
		require.Contains(t, e.Message, "there are main, teams/blue")
	}

	r.in(r.bare, "branch", "-m", "main", "trunk")
	for _, url := range []string{address, r.bare} {
		head, err := Look(testContext(t), Remote{URL: url})
		require.NoError(t, err)
		require.Equal(t, Head{Branch: "trunk", Hash: first}, head, "HEAD is followed")
	}

	r.in(r.bare, "symbolic-ref", "HEAD", "refs/heads/gone")
	for _, url := range []string{address, r.bare} {
		_, err := Look(testContext(t), Remote{URL: url})
		requireError(t, err, BranchNotFound)
	}
	r.in(r.bare, "update-ref", "--no-deref", "HEAD", first)
	for _, url := range []string{address, r.bare} {
		_, err := Look(testContext(t), Remote{URL: url})
		require.Contains(t, requireError(t, err, BranchNotFound).Message, "ref.branch", "a detached HEAD names no branch")
	}
}

// A01: the branch is forced back, and amended; the server forgets what was.
func TestCases_A01_ForcePush(t *testing.T) {
	root := t.TempDir()
	r, first := withCommit(t, root, "tenants.git")
	address := serveHTTP(t, root) + "/tenants.git"
	forget := func() {
		r.in(r.bare, "reflog", "expire", "--expire=now", "--all")
		r.in(r.bare, "gc", "-q", "--prune=now")
	}

	r.write("tenants/foo/more.yaml", "kind: Reservation\n")
	second := r.push("second")
	stale, err := Look(testContext(t), Remote{URL: address})
	require.NoError(t, err)
	require.Equal(t, second, stale.Hash)

	r.git("reset", "-q", "--hard", first)
	r.git("push", "-q", "-f", "origin", "main")
	forget()
	for _, url := range []string{address, r.bare} {
		require.Equal(t, first, fetchHead(t, Remote{URL: url}).Hash)

		commit, err := Fetch(testContext(t), Remote{URL: url}, stale, Limits{})
		require.NoError(t, err, "the look is older than the force-push")
		require.Equal(t, first, commit.Hash, "the head, not what was looked at")
		require.Equal(t, "main@sha1:"+first, commit.Revision)
		require.NoError(t, commit.Close())
	}

	r.write("tenants/foo/other.yaml", "kind: Reservation\n")
	r.git("add", "-A")
	r.git("commit", "-q", "--amend", "-m", "amended")
	amended := r.push("on top")
	forget()
	for _, url := range []string{address, r.bare} {
		require.Equal(t, amended, fetchHead(t, Remote{URL: url}).Hash)
	}
}

// A02 (a): a repository without commits is an error of its own.
func TestCases_A02_EmptyRepository(t *testing.T) {
	root := t.TempDir()
	r := newRepo(t, root, "empty.git")
	server := serveSSH(t, root)
	for name, remote := range map[string]Remote{
		"http":   {URL: serveHTTP(t, root) + "/empty.git"},
		"ssh":    {URL: server.url("empty.git"), Secret: sshSecret(t, server.line(ssh.KeyAlgoRSA))},
		"folder": {URL: r.bare},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Look(testContext(t), remote)
			require.True(t, requireError(t, err, RepositoryEmpty).Stalled)
			_, err = Fetch(testContext(t), remote, Head{Branch: "main"}, Limits{})
			requireError(t, err, RepositoryEmpty)
		})
	}
}

// A04: SHA-256 is refused by name.
func TestCases_A04_SHA256(t *testing.T) {
	root := t.TempDir()
	r := newRepo(t, root, "long.git", "--object-format=sha256")
	r.push("first")
	server := serveSSH(t, root)
	for name, remote := range map[string]Remote{
		"http":             {URL: serveHTTP(t, root) + "/long.git"},
		"ssh":              {URL: server.url("long.git"), Secret: sshSecret(t, server.line(ssh.KeyAlgoRSA))},
		"folder":           {URL: r.bare},
		"with a work tree": {URL: r.work},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Look(testContext(t), remote)
			e := requireError(t, err, UnsupportedObjectFormat)
			require.True(t, e.Stalled)
			require.Contains(t, e.Message, "SHA-256")
		})
	}
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())
	line := knownhosts.Line([]string{knownhosts.Normalize(addr)}, newHostKey(t, ssh.KeyAlgoED25519).PublicKey())
	for name, remote := range map[string]Remote{
		"http": {URL: "http://" + addr + "/x.git"},
		"ssh":  {URL: "ssh://git@" + addr + "/x.git", Secret: sshSecret(t, line)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Look(testContext(t), remote)
			e := requireError(t, err, RepositoryUnreachable)
			require.False(t, e.Stalled)
			require.Contains(t, e.Message, addr)
			require.Contains(t, e.Message, "connection refused")
		})
	}
}

func TestNotFound(t *testing.T) {
	root := t.TempDir()
	withCommit(t, root, "tenants.git")
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>log in</html>"))
	}))
	t.Cleanup(page.Close)
	file := filepath.Join(root, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	for name, url := range map[string]string{
		"http, no such repository":  serveHTTP(t, root) + "/elsewhere.git",
		"http, a page of something": page.URL + "/tenants.git",
		"no such folder":            filepath.Join(root, "elsewhere.git"),
		"a folder of other things":  root,
		"a file":                    file,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Look(testContext(t), Remote{URL: url})
			require.True(t, requireError(t, err, RepositoryNotFound).Stalled)
		})
	}
}

func TestCancel(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	mute := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // accepts by the backlog, says nothing
	require.NoError(t, err)
	t.Cleanup(func() { deaf.Close() })
	line := knownhosts.Line([]string{knownhosts.Normalize(deaf.Addr().String())}, newHostKey(t, ssh.KeyAlgoED25519).PublicKey())
	r, _ := withCommit(t, t.TempDir(), "tenants.git")

	remotes := map[string]Remote{
		"http":   {URL: mute.URL + "/x.git"},
		"ssh":    {URL: "ssh://git@" + deaf.Addr().String() + "/x.git", Secret: sshSecret(t, line)},
		"folder": {URL: r.bare},
	}
	for name, remote := range remotes {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if name == "folder" {
				cancel()
			}
			time.AfterFunc(50*time.Millisecond, cancel)
			// The two servers never answer: only the context brings it back.
			_, err := Fetch(ctx, remote, Head{Branch: "main"}, Limits{})
			requireError(t, err, FetchFailed)
			require.ErrorIs(t, err, context.Canceled)
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Look(ctx, remotes["http"])
	require.False(t, requireError(t, err, RepositoryUnreachable).Stalled)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestFetchAtOnce(t *testing.T) {
	root := t.TempDir()
	r, hash := withCommit(t, root, "tenants.git")
	server := serveSSH(t, root)
	remotes := []Remote{
		{URL: serveHTTP(t, root) + "/tenants.git"},
		{URL: server.url("tenants.git"), Secret: sshSecret(t, server.line(ssh.KeyAlgoRSA))},
		{URL: r.bare},
	}
	var wg sync.WaitGroup
	errs := make(chan error, 30)
	for i := range cap(errs) {
		wg.Go(func() {
			commit, err := Fetch(testContext(t), remotes[i%len(remotes)], Head{Branch: "main"}, Limits{})
			if err == nil && commit.Hash != hash {
				err = errors.New(commit.Hash)
			}
			errs <- errors.Join(err, commit.Close())
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}
