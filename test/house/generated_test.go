package house

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Generate(dir))
	problems, err := Outdated(os.DirFS(Root()), os.DirFS(dir))
	require.NoError(t, err)
	require.Empty(t, problems)

	generated, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, generated, 2, "deep copies below api, the rest below config")
}

func TestOutdatedFindsChanges(t *testing.T) {
	problems, err := Outdated(
		fstest.MapFS{"same.yaml": {Data: []byte("a")}, "changed.yaml": {Data: []byte("b")}, "by-hand.yaml": {Data: []byte("c")}},
		fstest.MapFS{"same.yaml": {Data: []byte("a")}, "changed.yaml": {Data: []byte("a")}, "missing.yaml": {Data: []byte("a")}},
	)
	require.NoError(t, err)
	require.Equal(t, []string{
		"changed.yaml is out of date; run make generate manifests", "missing.yaml is out of date; run make generate manifests",
	}, problems)
}

func TestRoleMarkersAreHeard(t *testing.T) {
	tree := os.DirFS(Root())
	deaf, err := DeafMarkers(tree)
	require.NoError(t, err)
	require.Empty(t, deaf)
	unmarked, err := Unmarked(tree)
	require.NoError(t, err)
	require.Empty(t, unmarked)
}

func TestDeafMarkersFindsThoseInComments(t *testing.T) {
	tree := fstest.MapFS{
		"webhook/a/type.go": {Data: []byte(`package a

// T is a type.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=get
type T struct {
	// +kubebuilder:rbac:groups="",resources=pods,verbs=get
	F int
}
`)},
		"webhook/a/function.go": {Data: []byte(`package a

// +kubebuilder:rbac:groups="",resources=pods,verbs=get
func F() {}
`)},
		"webhook/a/free.go": {Data: []byte(`package a

// +kubebuilder:rbac:groups="",resources=pods,verbs=get

// G does it.
func G() {}
`)},
	}
	problems, err := DeafMarkers(tree)
	require.NoError(t, err)
	require.Equal(t, []string{
		"webhook/a/function.go:3: this marker is not heard; leave an empty line below it",
		"webhook/a/type.go:5: this marker is not heard; leave an empty line below it",
		"webhook/a/type.go:7: this marker is not heard; leave an empty line below it",
	}, problems)
}

func TestUnmarkedFindsMarkersInOtherRooms(t *testing.T) {
	marker := []byte("package a\n\n// +kubebuilder:rbac:groups=\"\",resources=pods,verbs=get\n")
	problems, err := Unmarked(fstest.MapFS{"source/a/a.go": {Data: marker}, "webhook/a/a.go": {Data: marker}})
	require.NoError(t, err)
	require.Equal(t, []string{"source/a/a.go has a marker for roles, but source/a is not searched for them"}, problems)
}
