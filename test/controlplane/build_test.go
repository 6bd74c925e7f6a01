package controlplane

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecondBuildRunsNothing(t *testing.T) {
	first, err := Build(t.Context(), nil)
	require.NoError(t, err)

	t.Setenv("PATH", "") // no go tool to be found
	var progress bytes.Buffer
	second, err := Build(t.Context(), &progress)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Empty(t, progress.String())
	for _, name := range []string{Etcd, APIServer, Scheduler, ControllerManager, Kwok, "kubectl"} {
		require.FileExists(t, filepath.Join(first.Dir, name))
	}
}

func TestCacheKeyCoversTheModule(t *testing.T) {
	dir := t.TempDir()
	key := func(changed, text string) string {
		for _, name := range []string{"go.mod", "go.sum", "main.go", "README"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("same"), 0o644))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, changed), []byte(text), 0o644))
		key, err := cacheKey(dir)
		require.NoError(t, err)
		return key
	}
	same := key("README", "another")
	require.Equal(t, same, key("README", "text"))
	seen := map[string]bool{same: true}
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		changed := key(name, "another")
		require.NotContains(t, seen, changed)
		seen[changed] = true
	}
}

func TestAssetsReplaceTheirTwoComponents(t *testing.T) {
	assets := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(assets, Etcd), nil, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(assets, Scheduler), nil, 0o755))
	binaries := Binaries{Dir: "built", assets: assets}
	require.Equal(t, filepath.Join(assets, Etcd), binaries.Path(Etcd))
	require.Equal(t, filepath.Join("built", APIServer), binaries.Path(APIServer), "absent there")
	require.Equal(t, filepath.Join("built", Scheduler), binaries.Path(Scheduler), "never taken from there")
}

func TestLockIsForOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	require.NoError(t, err)

	second, err := tryLock(path)
	require.NoError(t, err)
	require.Nil(t, second)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lock(ended, path)
	require.ErrorIs(t, err, context.Canceled)

	unlock()
	again, err := lock(t.Context(), path)
	require.NoError(t, err)
	again()
}

func TestPortBlocksDoNotOverlap(t *testing.T) {
	one, err := takePorts()
	require.NoError(t, err)
	defer one.release()
	other, err := takePorts()
	require.NoError(t, err)
	defer other.release()
	require.NotEqual(t, one.first, other.first)
}

func TestFailedBuildShowsWhatTheToolSaid(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module broken\n\nnonsense\n"), 0o644))
	target := filepath.Join(dir, "built")
	require.ErrorContains(t, compile(t.Context(), dir, target, new(bytes.Buffer)), "nonsense")
	require.NoDirExists(t, target)
}

func TestTemporaryFoldersOfTheDeadAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	alive, release, err := temporaryDir()
	require.NoError(t, err)
	defer release()
	dead, release, err := temporaryDir()
	require.NoError(t, err)
	release()

	_, release, err = temporaryDir()
	require.NoError(t, err)
	defer release()
	require.DirExists(t, alive)
	require.NoDirExists(t, dead)
}
