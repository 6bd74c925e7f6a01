package render

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// files is a commit; a content that begins with "-> " is a symbolic link.
type files map[string]string

func (f files) tree() fs.FS {
	tree := fstest.MapFS{}
	for name, content := range f {
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			tree[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
			continue
		}
		tree[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	return tree
}

func (f files) render(t *testing.T, path string) ([]Object, []Finding) {
	t.Helper()
	objects, findings, err := Render(t.Context(), f.tree(), path, Limits{})
	require.NoError(t, err)
	return objects, findings
}

// lines are objects or findings as one reads them.
func lines[T any](list []T) []string {
	texts := []string{}
	for _, item := range list {
		switch v := any(item).(type) {
		case Object:
			texts = append(texts, fmt.Sprintf("%s %s/%s", v.at(), v.GetKind(), v.GetName()))
		case Finding:
			text := v.String()
			if v.Warning {
				text = "warning: " + text
			}
			texts = append(texts, text)
		}
	}
	return texts
}

func namespace(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + name + "\n"
}

func reservation(name string, more ...string) string {
	return "apiVersion: scheduling.coreweave.cloud/v1alpha1\nkind: Reservation\nmetadata:\n  name: " + name +
		"\nspec:\n  tenant: alpha\n" + strings.Join(more, "")
}

const kustomizationFor = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"

func TestRender(t *testing.T) {
	for name, c := range map[string]struct {
		files        files
		path         string
		want         []string
		wantFindings []string
	}{
		"a folder of plain files, in order of names and documents": {
			files: files{
				"b.yaml":        namespace("b1") + "---\n" + namespace("b2"),
				"a.yml":         "# a\n" + namespace("a"),
				"c/d/e.json":    `{"apiVersion":"v1","kind":"Namespace",` + "\n\t" + `"metadata":{"name":"e"}}`,
				"README.md":     "# not: yaml: at all\n",
				"notes.txt":     "%%",
				".github/w.yml": "on: push",
				".hidden.yaml":  "x",
			},
			want: []string{"a.yml:2 Namespace/a", "b.yaml:1 Namespace/b1", "b.yaml:6 Namespace/b2", "c/d/e.json:1 Namespace/e"},
		},
		"a sub-folder only": {
			files: files{"a/x.yaml": namespace("x"), "b/y.yaml": namespace("yy")}, path: "./b/",
			want: []string{"b/y.yaml:1 Namespace/yy"},
		},
		"a kustomization at the path": {
			files: files{
				"t/kustomization.yaml": kustomizationFor + "- two.yaml\n- one.yaml\n- sub\n",
				"t/one.yaml":           namespace("one"),
				"t/two.yaml":           namespace("two") + "---\n" + reservation("two"),
				"t/sub/Kustomization":  "resources: [three.yaml]\nnamePrefix: sub-\n",
				"t/sub/three.yaml":     "\n\n" + reservation("three"),
			}, path: "t",
			want: []string{"t/two.yaml:1 Namespace/two", "t/two.yaml:6 Reservation/two", "t/one.yaml:1 Namespace/one", "t/sub/three.yaml:3 Reservation/sub-three"},
		},
		"a folder of tenants, some with kustomizations": {
			files: files{
				"t/a/kustomization.yml": "resources: [r.yaml]\n",
				"t/a/r.yaml":            reservation("a"),
				"t/a/deep/plain.yaml":   "is not read",
				"t/b/r.yaml":            reservation("b"),
			}, path: "t",
			want: []string{"t/a/r.yaml:1 Reservation/a", "t/b/r.yaml:1 Reservation/b"},
		},
		"an overlay whose base lies above it": {
			files: files{
				"base/kustomization.yaml":          "resources: [r.yaml]\n",
				"base/r.yaml":                      reservation("r", "  reservedNodes: [a, b]\n"),
				"overlays/prod/kustomization.yaml": "resources: [../../base]\npatches:\n- path: ../patch.yaml\n- patch: |-\n    - op: add\n      path: /metadata/labels\n      value: {site: \"1\"}\n  target: {kind: Reservation}\n",
				"overlays/patch.yaml":              "apiVersion: scheduling.coreweave.cloud/v1alpha1\nkind: Reservation\nmetadata: {name: r}\nspec: {reservedNodes: [c]}\n",
			}, path: "overlays/prod",
			want: []string{"base/r.yaml:1 Reservation/r"},
		},
		"a kustomization file that is not listed": {
			files:        files{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": namespace("a"), "b.yaml": namespace("b"), "c.txt": ""},
			want:         []string{"a.yaml:1 Namespace/a"},
			wantFindings: []string{"warning: b.yaml: is not listed in kustomization.yaml, so it has no effect"},
		},
		"an object that kustomize drops": {
			files: files{
				"kustomization.yaml": "resources: [a.yaml, b.yaml]\n", "a.yaml": namespace("a"),
				"b.yaml": namespace("b") + "  annotations: {config.kubernetes.io/local-config: \"true\"}\n",
			},
			want:         []string{"a.yaml:1 Namespace/a"},
			wantFindings: []string{"warning: b.yaml:1: Namespace b: is left out of the result by kustomization.yaml"},
		},
		"all problems at once, in order": {
			files: files{
				"a.yaml": namespace("a") + "---\n[1, 2]\n---\nkind: Namespace\n",
				"b.yaml": "a: b: c\n",
				"c.yaml": namespace("on"),
			},
			want: []string{"a.yaml:1 Namespace/a"},
			wantFindings: []string{
				"a.yaml:6: holds a list, not an object: an object is a map with apiVersion, kind and metadata",
				"a.yaml:8: Namespace: apiVersion: is missing",
				"a.yaml:8: Namespace: metadata.name: is missing",
				"b.yaml:1: cannot be read as YAML: mapping values are not allowed in this context",
				"c.yaml:4: Namespace on: metadata.name: on is read as true: quote it",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, findings := c.files.render(t, c.path)
			require.Equal(t, c.want, lines(objects))
			require.ElementsMatch(t, c.wantFindings, lines(findings))
		})
	}
}

func TestPathNotFound(t *testing.T) {
	tree := files{"a/x.yaml": namespace("x"), "out": "-> /etc", "loop": "-> loop", "up": "-> ../x", "ok": "-> a"}.tree()
	for _, path := range []string{"b", "a/b", "a/x.yaml", "a/x.yaml/b", "..", "a/../..", "out", "loop", "up", "out/passwd"} {
		objects, findings, err := Render(t.Context(), tree, path, Limits{})
		require.ErrorIs(t, err, ErrPathNotFound, path)
		require.Empty(t, objects)
		require.Empty(t, findings)
		require.NotContains(t, err.Error(), "/etc")
	}
	for _, path := range []string{"", ".", "/", "./", "a", "/a/", "./a/.", "a/../a", "ok"} {
		objects, findings, err := Render(t.Context(), tree, path, Limits{})
		require.NoError(t, err, path)
		require.NotEmpty(t, objects)
		require.Equal(t, len(path) < 3 && path != "a" && path != "ok", Rejected(findings), "the links at the root")
	}
}

// A02 (c), (d), (e): nothing to render is neither an error nor a finding; what
// it means is the caller's to decide.
func TestCases_A02_NothingToApply(t *testing.T) {
	for name, f := range map[string]files{
		"only a README":      {"README.md": "x"},
		"resources: []":      {"kustomization.yaml": "resources: []\n"},
		"a base without any": {"kustomization.yaml": "resources: [base]\n", "base/kustomization.yaml": "resources: []\n"},
		"a List of nothing":  {"list.yaml": "apiVersion: v1\nkind: List\nitems:\n"},
		"a List in kz":       {"kustomization.yaml": "resources: [l.yaml]\n", "l.yaml": "apiVersion: v1\nkind: List\nitems: null\n"},
		"comments only":      {"a.yaml": "# nothing\n---\n# nothing\n", "kustomization.yaml": "resources: [a.yaml]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, findings := f.render(t, "")
			require.Empty(t, objects)
			require.Empty(t, findings)
		})
	}
}

func TestLists(t *testing.T) {
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(namespace("a"), "\n", "\n  ") + "\n- apiVersion: v1\n  kind: NamespaceList\n  items:\n  - {apiVersion: v1, kind: Namespace, metadata: {name: b}}\n"
	for _, f := range []files{{"l.yaml": list}, {"l.yaml": list, "kustomization.yaml": "resources: [l.yaml]\n"}} {
		objects, findings := f.render(t, "")
		require.Empty(t, findings)
		require.Equal(t, []string{"l.yaml:4 Namespace/a", "l.yaml:12 Namespace/b"}, lines(objects))
	}
	_, findings := files{"l.yaml": "kind: List\nitems: {}\n---\nkind: List\nitems: [null, x]\n"}.render(t, "")
	require.Len(t, findings, 3)
}

func TestLimitsOfRender(t *testing.T) {
	many := files{}
	for i := range 30 {
		many[fmt.Sprintf("d/%02d.yaml", i)] = namespace(fmt.Sprintf("n%d", i))
	}
	built := files{"kustomization.yaml": "resources:\n"}
	for i := range 30 {
		name := fmt.Sprintf("%02d.yaml", i)
		built[name] = namespace(fmt.Sprintf("n%d", i))
		built["kustomization.yaml"] += "- " + name + "\n"
	}
	deep := files{strings.Repeat("d/", 12) + "x.yaml": namespace("x")}
	wide := files{"x.yaml": namespace("x") + "spec: {a: [" + strings.Repeat("1,", 200) + "]}\n"}
	nested := files{"x.yaml": namespace("x") + "spec: " + strings.Repeat("[", 50) + strings.Repeat("]", 50) + "\n"}
	for name, c := range map[string]struct {
		files  files
		limits Limits
		want   string
	}{
		"files":             {many, Limits{Files: 29}, "d/29.yaml: is one file too many: at most 29 are rendered"},
		"bytes":             {many, Limits{Bytes: 1000}, "is one file too many"},
		"file bytes":        {wide, Limits{FileBytes: 100}, "x.yaml: is larger than"},
		"objects":           {many, Limits{Objects: 29}, "more than 29 objects"},
		"one kustomization": {built, Limits{Kustomized: 29}, "kustomization.yaml: takes in more than 29 objects"},
		"values":            {wide, Limits{Nodes: 150}, "more than 150 values"},
		"values in all":     {many, Limits{Nodes: 15}, "all together have more than 150 values"},
		"folders":           {deep, Limits{Depth: 10}, "deeper than 10"},
		"nesting":           {nested, Limits{Depth: 40}, "deeper than 40"},
	} {
		t.Run(name, func(t *testing.T) {
			_, findings, err := Render(t.Context(), c.files.tree(), "", c.limits)
			require.NoError(t, err)
			require.True(t, Rejected(findings))
			require.Contains(t, strings.Join(lines(findings), "\n"), c.want)
		})
	}
}

func TestRenderIsCancelled(t *testing.T) {
	tree := files{"a/kustomization.yaml": "resources: [x.yaml]\n", "a/x.yaml": namespace("x"), "b.yaml": namespace("b")}.tree()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := Render(ctx, tree, "", Limits{})
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = Render(ctx, tree, "a", Limits{})
	require.ErrorIs(t, err, context.Canceled)

	slot <- struct{}{} // somebody else's build takes long
	defer func() { <-slot }()
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err = Render(ctx, tree, "a", Limits{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, ErrBusy)
}

// gated is a file system of kustomize that lets nobody read before the gate opens.
type gated struct {
	filesys.FileSystem
	gate chan struct{}
}

func (g gated) ReadFile(name string) ([]byte, error) {
	<-g.gate
	return g.FileSystem.ReadFile(name)
}

// A build that takes too long is left to itself; what comes next neither waits for it nor runs beside it.
func TestRenderThatIsGivenUp(t *testing.T) {
	tree := files{"kustomization.yaml": "resources: [x.yaml]\n", "x.yaml": namespace("x")}.tree()
	r := newRenderer(tree, Limits{})
	k, err := r.load(t.Context(), place{}, ".", ".")
	require.NoError(t, err)
	gate := make(chan struct{})
	r.memory = memory{gated{r.memory.FileSystem, gate}}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = r.build(ctx, k)
	require.ErrorIs(t, err, context.Canceled)

	for range 3 {
		_, _, err = Render(t.Context(), tree, "", Limits{})
		require.ErrorIs(t, err, ErrBusy)
	}
	close(gate)
	require.Eventually(t, func() bool { return underWay.Load() == nil }, time.Minute, time.Millisecond)
	objects, findings, err := Render(t.Context(), tree, "", Limits{})
	require.NoError(t, err)
	require.Empty(t, findings)
	require.Len(t, objects, 1)
}

// failing is a file system that cannot read.
type failing struct{ fs.FS }

func (f failing) Open(name string) (fs.File, error) {
	if name == "a.yaml" {
		return nil, errors.New("disk on fire")
	}
	return f.FS.Open(name)
}
func (f failing) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.FS, name) }
func (f failing) ReadLink(name string) (string, error)   { return fs.ReadLink(f.FS, name) }

func TestFailedReadIsAnError(t *testing.T) {
	_, _, err := Render(t.Context(), failing{files{"a.yaml": "x"}.tree()}, "", Limits{})
	require.ErrorContains(t, err, "reading a.yaml: disk on fire")
	require.NotErrorIs(t, err, ErrPathNotFound)
}

func TestFindingString(t *testing.T) {
	for want, f := range map[string]Finding{
		"tenants/foo/reservation.yaml:12: Reservation tenant-foo-reservation: spec.tenant: is missing": {
			File: "tenants/foo/reservation.yaml", Line: 12, Kind: "Reservation", Name: "tenant-foo-reservation", Field: "spec.tenant", Message: "is missing"},
		"a.yaml: x":                   {File: "a.yaml", Message: "x"},
		"ReservationBinding foo/b: x": {Kind: "ReservationBinding", Namespace: "foo", Name: "b", Message: "x"},
		"x":                           {Message: "x"},
	} {
		require.Equal(t, want, f.String())
	}
}

func TestRenderAtOnce(t *testing.T) {
	tree := files{"a/kustomization.yaml": "resources: [x.yaml]\nnamePrefix: p-\n", "a/x.yaml": reservation("x"), "b.yaml": namespace("b")}.tree()
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			objects, findings, err := Render(t.Context(), tree, "", Limits{})
			if err == nil && (len(objects) != 2 || len(findings) != 0) {
				err = fmt.Errorf("%v %v", lines(objects), lines(findings))
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
}
