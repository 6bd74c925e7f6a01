package house

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestPagesNameOnlyWhatThereIs(t *testing.T) {
	problems, err := Pages(os.DirFS(Root()))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestPagesFindsCommandsAndLinksThatLeadNowhere(t *testing.T) {
	problems, err := Pages(fstest.MapFS{
		"Makefile": {Data: []byte("X := make nothing\n.PHONY: test\ntest: vet ## Run.\n\tgo test\n.PHONY: vet\nvet:\n\nbuild: ## Build.\n")},
		"README.md": {Data: []byte("To make sense: `make test`, `make tset`, [a](docs/a.md), [b](docs/b.md#c), [w](https://example.com).\n\n" +
			"    make demo ONCE=1   # plays\n    make test build\n\n```\nmake bench\n```\n\nThings that make it work.\n")},
		"docs/a.md":    {Data: []byte("[back](../README.md#there), [here](#there), [on](next.md)")},
		".git/junk.md": {Data: []byte("`make junk`")},
	})
	require.NoError(t, err)
	require.Equal(t, []string{
		"the target vet has no explanation for make help",
		"the target build is not .PHONY, though it names no file",
		"README.md says make tset, which the Makefile does not know",
		"README.md says make demo, which the Makefile does not know",
		"README.md says make bench, which the Makefile does not know",
		"README.md links to docs/b.md#c, which does not exist",
		"docs/a.md links to next.md, which does not exist",
	}, problems)
}

func TestCodeNamesOnlyPagesThatThereAre(t *testing.T) {
	problems, err := Mentions(os.DirFS(Root()))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestMentionsFindsPagesThatAreGone(t *testing.T) {
	problems, err := Mentions(fstest.MapFS{
		"a/a.go":                 {Data: []byte("// See docs/how-to/install.md and docs/how-to/gone.md.\npackage a\n")},
		"docs/how-to/install.md": {},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a/a.go names docs/how-to/gone.md, which does not exist"}, problems)
}
