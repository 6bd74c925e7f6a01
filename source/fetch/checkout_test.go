package fetch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/stretchr/testify/require"
)

func TestTree(t *testing.T) {
	root := t.TempDir()
	r, hash := withCommit(t, root, "tenants.git")
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 4743\n"
	r.write("lfs.yaml", pointer)
	r.write("run.sh", "#!/bin/sh\n")
	r.write(".gitattributes", "*.yaml filter=lfs\n")
	require.NoError(t, os.Chmod(filepath.Join(r.work, "run.sh"), 0o755))
	for name, target := range map[string]string{
		"sibling": "tenants/foo/reservation.yaml", "folder": "tenants", "absolute": "/etc/passwd", "above": "../../etc/passwd", "loop": "loop", "nowhere": "gone",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(r.work, name)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(r.work, "module"), 0o755))
	r.git("update-index", "--add", "--cacheinfo", "160000,"+hash+",module")
	r.push("all kinds")

	for _, url := range []string{serveHTTP(t, root) + "/tenants.git", r.bare} {
		commit := fetchHead(t, Remote{URL: url})
		tree := commit.Tree

		content, err := fs.ReadFile(tree, "lfs.yaml")
		require.NoError(t, err)
		require.Equal(t, pointer, string(content))
		content, err = fs.ReadFile(tree, "sibling")
		require.NoError(t, err, "a link inside the tree is followed")
		require.Equal(t, "kind: Reservation\n", string(content))
		content, err = fs.ReadFile(tree, "folder/foo/reservation.yaml")
		require.NoError(t, err)
		require.Equal(t, "kind: Reservation\n", string(content))

		for _, name := range []string{"absolute", "above", "loop", "nowhere"} {
			_, err := fs.ReadFile(tree, name)
			require.Error(t, err, name)
			info, err := fs.Lstat(tree, name)
			require.NoError(t, err)
			require.Equal(t, fs.ModeSymlink, info.Mode().Type())
		}
		target, err := fs.ReadLink(tree, "above")
		require.NoError(t, err)
		require.Equal(t, "../../etc/passwd", target)

		entries, err := fs.ReadDir(tree, "module")
		require.NoError(t, err)
		require.Empty(t, entries)
		_, err = fs.Stat(tree, ".git")
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

func TestLimits(t *testing.T) {
	root := t.TempDir()
	r, _ := withCommit(t, root, "tenants.git")
	r.write("zeros", strings.Repeat("\x00", 1<<20))
	r.push("compresses well")
	r.git("switch", "-q", "-c", "delta")
	// A second file that differs little is sent as a delta.
	r.write("almost", strings.Repeat("\x00", 1<<20)+"1")
	r.push("a delta")
	r.in(r.bare, "repack", "-a", "-d", "-q", "-f")
	address := serveHTTP(t, root) + "/tenants.git"

	for name, c := range map[string]struct {
		branch      string
		limits      Limits
		wantMessage string
	}{
		"enough":             {branch: "delta", limits: Limits{Files: 6, Bytes: 2<<20 + 1<<10, FileBytes: 1<<20 + 1}},
		"too many files":     {branch: "main", limits: Limits{Files: 3}, wantMessage: "more than 3 files"},
		"a file too large":   {branch: "main", limits: Limits{FileBytes: 1<<20 - 1}, wantMessage: "zeros"},
		"too much in all":    {branch: "main", limits: Limits{Bytes: 1 << 20}, wantMessage: "more than 1 MiB"},
		"too much by deltas": {branch: "delta", limits: Limits{Bytes: 2 << 20}, wantMessage: "more than 2 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, url := range []string{address, r.bare} {
				commit, err := Fetch(testContext(t), Remote{URL: url}, Head{Branch: c.branch}, c.limits)
				if c.wantMessage == "" {
					require.NoError(t, err)
					require.NoError(t, commit.Close())
					continue
				}
				e := requireError(t, err, CommitTooLarge)
				require.True(t, e.Stalled)
				require.Contains(t, e.Message, c.wantMessage)
			}
		})
	}
}

func TestPackLargerThanLimit(t *testing.T) {
	root := t.TempDir()
	r, _ := withCommit(t, root, "tenants.git")
	noise, state := make([]byte, 256<<10), uint32(1)
	for i := range noise {
		state = state*1664525 + 1013904223
		noise[i] = byte(state >> 24)
	}
	r.write("noise", string(noise))
	r.push("does not compress")
	_, err := Fetch(testContext(t), Remote{URL: serveHTTP(t, root) + "/tenants.git"}, Head{Branch: "main"}, Limits{Bytes: 128 << 10})
	requireError(t, err, CommitTooLarge)
}

// treeBomb has ten entries per level that are all the same folder.
func TestTreeBomb(t *testing.T) {
	root := t.TempDir()
	r, _ := withCommit(t, root, "tenants.git")
	tree := r.git("rev-parse", "HEAD:tenants")
	for range 9 {
		var lines strings.Builder
		for i := range 10 {
			lines.WriteString("040000 tree " + tree + "\td" + string(rune('0'+i)) + "\n")
		}
		tree = r.mktree(lines.String())
	}
	r.git("update-ref", "refs/heads/main", r.git("commit-tree", tree, "-m", "bomb"))
	r.git("push", "-q", "-f", "origin", "main")
	_, err := Fetch(testContext(t), Remote{URL: serveHTTP(t, root) + "/tenants.git"}, Head{Branch: "main"}, Limits{Files: 500})
	requireError(t, err, CommitTooLarge)
}

func TestDeepFolders(t *testing.T) {
	r := newRepo(t, t.TempDir(), "tenants.git")
	r.write(strings.Repeat("d/", maxDepth+1)+"file", "")
	r.push("deep")
	_, err := Fetch(testContext(t), Remote{URL: r.bare}, Head{Branch: "main"}, Limits{})
	require.Contains(t, requireError(t, err, CommitTooLarge).Message, "deeper")
}

// mktree writes a tree object, with names that the real git would not allow in
// a work tree.
func (r *repo) mktree(lines string) string {
	r.t.Helper()
	r.write("../mktree", lines)
	defer os.Remove(filepath.Join(r.work, "../mktree"))
	return r.git("-c", "core.protectNTFS=false", "-c", "alias.mk=!git mktree < ../mktree", "mk")
}

func TestForbiddenNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", ".git", ".GIT", "a/b", "a\x00"} {
		require.True(t, forbidden(name), name)
	}
	for _, name := range []string{".github", ".gitignore", "git", "...", "a b", "ä"} {
		require.False(t, forbidden(name), name)
	}

	root := t.TempDir()
	r, _ := withCommit(t, root, "tenants.git")
	tree := r.git("rev-parse", "HEAD:tenants")
	r.git("update-ref", "refs/heads/main", r.git("commit-tree", r.mktree("040000 tree "+tree+"\t.git\n"), "-m", "hostile"))
	r.git("push", "-q", "-f", "origin", "main")
	_, err := Fetch(testContext(t), Remote{URL: serveHTTP(t, root) + "/tenants.git"}, Head{Branch: "main"}, Limits{})
	e := requireError(t, err, FetchFailed)
	require.True(t, e.Stalled)
	require.Contains(t, e.Message, `".git"`)
}

func TestTargetSize(t *testing.T) {
	require.EqualValues(t, 300, targetSize([]byte{1, 0xac, 2, 9, 9}))
	require.EqualValues(t, -1, targetSize(nil))
	require.EqualValues(t, -1, targetSize([]byte{1}))
	require.EqualValues(t, -1, targetSize([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}))
}

// FuzzUnpack: no pack makes a panic or an object past the limit.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00"))
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\xbf\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, pack []byte) {
		objects, err := unpack(pack, Limits{Bytes: 1 << 16}.withDefaults(), "x")
		if err != nil {
			return
		}
		iter, err := objects.IterEncodedObjects(plumbing.AnyObject)
		require.NoError(t, err)
		require.NoError(t, iter.ForEach(func(o plumbing.EncodedObject) error {
			require.LessOrEqual(t, o.Size(), int64(1<<16))
			return nil
		}))
	})
}
