package fetch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSweep(t *testing.T) {
	tmp := t.TempDir()
	repository, _ := withCommit(t, t.TempDir(), "tenants.git")
	t.Setenv("TMPDIR", tmp)
	inUse := fetchHead(t, Remote{URL: repository.bare})

	// What a killed process leaves is a folder that nobody has open.
	left := filepath.Join(tmp, folderPrefix+"1")
	require.NoError(t, os.MkdirAll(filepath.Join(left, "tenants", "foo"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(left, "tenants", "foo", "r.yaml"), nil, 0o600))
	// These are not ours.
	outside := filepath.Join(tmp, "outside")
	require.NoError(t, os.Mkdir(outside, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "x"), nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(tmp, folderPrefix+"link")))
	require.NoError(t, os.WriteFile(filepath.Join(tmp, folderPrefix+"file"), nil, 0o600))

	for range 2 {
		require.NoError(t, Sweep())
		require.NoDirExists(t, left)
		require.FileExists(t, filepath.Join(outside, "x"))
		require.FileExists(t, filepath.Join(tmp, folderPrefix+"file"))
		require.DirExists(t, inUse.folder)
		require.FileExists(t, filepath.Join(inUse.folder, "tenants/foo/reservation.yaml"))
	}
	require.NoError(t, inUse.Close())
	require.NoDirExists(t, inUse.folder)
}

// However a sweep and a new folder meet, the folder that is handed out is there.
func TestSweepWhileFoldersAreMade(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				err = Sweep()
			}
		}
		stopped <- err
	}()
	for range 500 {
		name, hold, err := makeFolder()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(name, "x"), nil, 0o600))
		require.NoError(t, os.RemoveAll(name))
		require.NoError(t, hold.Close())
	}
	close(stop)
	require.NoError(t, <-stopped)
}

func TestNoRoomForFolders(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
	require.Error(t, Sweep())
	_, _, err := makeFolder()
	require.Error(t, err)
}
