package controlplane_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestKubectlPrintsNodes(t *testing.T) {
	withNodes(t, "printed-01")
	out, err := plane.Kubectl(t.Context(), "get", "nodes")
	require.NoError(t, err)
	require.Regexp(t, `printed-01 +Ready`, out)
}

func TestKubectlErrorCarriesItsOutput(t *testing.T) {
	out, err := plane.Kubectl(t.Context(), "get", "node", "absent")
	require.ErrorContains(t, err, `nodes "absent" not found`)
	require.Contains(t, out, "NotFound")
}

func TestApplyTakesFilesFoldersAndKustomizations(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	configMap := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: default}\n"
	}
	write("file.yaml", configMap("of-a-file"))
	write("folder/one.yaml", configMap("of-a-folder"))
	write("kustomized/one.yaml", configMap("kustomization"))
	write("kustomized/kustomization.yaml", "namePrefix: of-a-\nresources: [one.yaml]\n")

	require.NoError(t, plane.Apply(t.Context(),
		filepath.Join(dir, "file.yaml"), filepath.Join(dir, "folder"), filepath.Join(dir, "kustomized")))
	for _, name := range []string{"of-a-file", "of-a-folder", "of-a-kustomization"} {
		_, err := client(t).CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
	}
	require.ErrorContains(t, plane.Apply(t.Context(), filepath.Join(dir, "absent.yaml")), "absent.yaml")
}
