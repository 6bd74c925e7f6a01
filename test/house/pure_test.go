package house

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestPureFilesStayPure(t *testing.T) {
	problems, err := Impurities(os.DirFS(Root()), Pure)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestImpuritiesFindsWhatReachesOut(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want string
	}{
		"values": {text: `import ("fmt"; "time"; corev1 "k8s.io/api/core/v1"; "net/url")
			var _ = fmt.Sprint(time.Second, time.Duration(1), corev1.Pod{}, url.URL{})`},
		"a client":         {`import _ "sigs.k8s.io/controller-runtime/pkg/client"`, "controller-runtime/pkg/client, which is not known"},
		"client-go":        {`import _ "k8s.io/client-go/kubernetes"`, "k8s.io/client-go/kubernetes, which is not known"},
		"the file system":  {`import _ "os"`, "imports os, which reaches out"},
		"a process":        {`import _ "os/exec"`, "imports os/exec, which reaches out"},
		"the network":      {`import _ "net/http"`, "imports net/http"},
		"a logger":         {`import _ "log/slog"`, "imports log/slog"},
		"another logger":   {`import _ "github.com/go-logr/logr"`, "logr, which is not known"},
		"chance":           {`import _ "math/rand/v2"`, "imports math/rand/v2"},
		"a context":        {`import _ "context"`, "imports context"},
		"the clock":        {`import "time"; var _ = time.Now()`, "uses time.Now"},
		"a renamed clock":  {`import t "time"; var _ = t.Since(t.Time{})`, "uses time.Since"},
		"the clock's name": {`import "time"; var now = time.Now`, "uses time.Now"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{"a/pure.go": {Data: []byte("package a\n" + tc.text)}}
			problems, err := Impurities(tree, []string{"a/*.go"})
			require.NoError(t, err)
			if tc.want == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], tc.want)
		})
	}
}

func TestImpuritiesFindsFilesThatAreGone(t *testing.T) {
	problems, err := Impurities(fstest.MapFS{}, []string{"a/rules.go"})
	require.NoError(t, err)
	require.Equal(t, []string{"a/rules.go is listed as pure and does not exist"}, problems)
}

func TestImpuritiesLeavesTestsAlone(t *testing.T) {
	problems, err := Impurities(fstest.MapFS{
		"a/rules.go": {Data: []byte("package a")}, "a/rules_test.go": {Data: []byte("package a\nimport _ \"os\"")},
	}, []string{"a/*.go"})
	require.NoError(t, err)
	require.Empty(t, problems)
}
