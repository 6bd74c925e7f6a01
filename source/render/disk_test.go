package render

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// onDisk is the commit as package fetch hands it over.
func (f files) onDisk(t *testing.T) fs.FS {
	t.Helper()
	folder := t.TempDir()
	for name, content := range f {
		file := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			require.NoError(t, os.Symlink(target, file))
			continue
		}
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	root, err := os.OpenRoot(folder)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root.FS()
}

func TestRenderOnDisk(t *testing.T) {
	f := files{
		"tenants/kustomized/kustomization.yaml": "resources: [r.yaml, ../../base]\n",
		"tenants/kustomized/r.yaml":             "-> ../../_shared/r.yaml",
		"tenants/linked":                        "-> ../_shared",
		"tenants/out.yaml":                      "-> /etc/hostname",
		"tenants/above":                         "-> ../../..",
		"tenants/loop.yaml":                     "-> loop.yaml",
		"tenants/gone.yaml":                     "-> ../gone.yaml",
		"tenants/below.yaml":                    "-> plain.yaml/x",
		"tenants/plain.yaml":                    namespace("plain"),
		"_shared/r.yaml":                        reservation("shared"),
		"base/kustomization.yaml":               "resources: [n.yaml]\n",
		"base/n.yaml":                           namespace("base"),
	}
	for _, tree := range []fs.FS{f.onDisk(t), f.tree()} {
		objects, findings, err := Render(t.Context(), tree, "./tenants/", Limits{})
		require.NoError(t, err)
		require.Equal(t, []string{
			"tenants/kustomized/r.yaml:1 Reservation/shared", "base/n.yaml:1 Namespace/base",
			"tenants/linked/r.yaml:1 Reservation/shared", "tenants/plain.yaml:1 Namespace/plain",
		}, lines(objects))
		require.Equal(t, []string{
			"tenants/above: " + errEscapes.Error(), "tenants/below.yaml: " + errDangles.Error(), "tenants/gone.yaml: " + errDangles.Error(),
			"tenants/loop.yaml: " + errLoops.Error(), "tenants/out.yaml: " + errEscapes.Error(),
		}, lines(findings))
		for _, path := range []string{"gone", "tenants/plain.yaml", "tenants/plain.yaml/x", "tenants/above", "..", "tenants/loop.yaml"} {
			_, _, err := Render(t.Context(), tree, path, Limits{})
			require.ErrorIs(t, err, ErrPathNotFound, path)
		}
	}
}
