package fetch

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/stretchr/testify/require"
)

// Azure DevOps itself is out of a test's reach: this is a real server that is
// spoken to as it is.
func TestAzureIsAskedForTheWholeBranch(t *testing.T) {
	root := t.TempDir()
	r, first := withCommit(t, root, "tenants.git")
	second := r.push("second")
	for url, wantShallow := range map[string]bool{
		"https://git.example.com/x":             true,
		"https://dev.azure.com/org/p/_git/x":    false,
		"https://org.visualstudio.com/p/_git/x": false,
		"git@ssh.dev.azure.com:v3/org/p/x":      false,
		"https://evil.com/dev.azure.com/x":      true,
	} {
		t.Run(url, func(t *testing.T) {
			there, err := parseURL(serveHTTP(t, root) + "/tenants.git")
			require.NoError(t, err)
			spoken, err := parseURL(url)
			require.NoError(t, err)
			w := &wire{link: newHTTPLink(there, credentials{}), address: spoken}
			defer w.close()
			b, err := w.branches(testContext(t))
			require.NoError(t, err)
			require.Equal(t, second, b.hashes["main"].String())

			request, err := w.request(b.hashes["main"])
			require.NoError(t, err)
			body, err := encode(request)
			require.NoError(t, err)
			require.Equal(t, wantShallow, strings.Contains(string(body), "deepen 1"))
			require.Equal(t, !wantShallow, strings.Contains(string(body), "multi_ack"))

			objects, err := w.objects(testContext(t), b.hashes["main"], DefaultLimits())
			require.NoError(t, err)
			_, err = object.GetCommit(objects, plumbing.NewHash(second))
			require.NoError(t, err)
			_, err = object.GetCommit(objects, plumbing.NewHash(first))
			require.Equal(t, wantShallow, err != nil)
		})
	}
}

func TestMissingCommit(t *testing.T) {
	r, _ := withCommit(t, t.TempDir(), "tenants.git")
	l := &local{address: address{path: r.bare, shown: r.bare}}
	_, err := l.branches(testContext(t))
	require.NoError(t, err)
	defer l.close()
	gone := Head{Branch: "main", Hash: strings.Repeat("a", 40)}
	_, err = checkout(testContext(t), l.repository.Storer, gone, DefaultLimits(), "x")
	e := requireError(t, err, FetchFailed)
	require.False(t, e.Stalled, "the next look finds where the branch went")
	require.Contains(t, e.Message, gone.Hash)
}
