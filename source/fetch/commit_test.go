package fetch

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/stretchr/testify/require"
)

func TestRevertByGit(t *testing.T) {
	r, _ := withCommit(t, t.TempDir(), "tenants.git")
	r.write("tenants/foo/reservation.yaml", "kind: Other\n")
	second := r.push("second")

	r.git("revert", "--no-edit", "HEAD")
	third := r.push("empty")
	r.git("reset", "-q", "--hard", third+"^")
	r.git("push", "-q", "-f", "origin", "main")
	commit := fetchHead(t, Remote{URL: r.bare})
	require.Equal(t, `Revert "second"`, commit.Subject)
	require.Equal(t, second, commit.Reverts)
}

func TestReverts(t *testing.T) {
	hash := strings.Repeat("0123456789", 4)
	for message, want := range map[string]string{
		"Revert \"x\"\n\nThis reverts commit " + hash + ".\n":                                hash,
		"Reapply \"x\"\n\nThis reverts commit " + hash + ".\n":                               hash,
		"Revert a merge\n\nThis reverts commit " + hash + ", reversing\nchanges made to y\n": hash,
		"x\r\n\r\nThis reverts commit " + hash + ".\r\n":                                     hash,
		"x\n\nThis reverts commit 0123456 (x, 2026-01-02).\n":                                "",
		"x\n\nThis reverts commit " + hash + "0.\n":                                          "",
		"x\n\n> This reverts commit " + hash + ".\n":                                         "",
		"x": "",
	} {
		require.Equal(t, want, reverts(message), message)
	}
}

func TestDescribeCleansText(t *testing.T) {
	c := describe(&object.Commit{Message: "\n\n  \xff subject \nbody\x00", Author: object.Signature{Name: "A\xffa", Email: "a\x00@b"}}, Head{})
	require.Equal(t, "\uFFFD subject", c.Subject)
	require.Equal(t, "\n\n  \uFFFD subject \nbody\uFFFD", c.Message)
	require.Equal(t, "A\uFFFDa", c.Author)
	require.Equal(t, "a\uFFFD@b", c.Email)
}

func TestReasonsAreClosed(t *testing.T) {
	require.Len(t, Reasons(), 12)
	for _, r := range Reasons() {
		require.Regexp(t, `^[A-Z][A-Za-z]+$`, string(r))
	}
}
