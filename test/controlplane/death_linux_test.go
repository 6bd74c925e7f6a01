package controlplane_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// running are the processes of a folder's control plane: those with the folder in their command line.
// A zombie has no command line any more.
func running(t require.TestingT, dir string) (out []string) {
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, entry := range entries {
		command, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if err == nil && strings.Contains(string(command), dir) {
			out = append(out, entry.Name()+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return out
}

func TestStopLeavesNoProcessAndNoTemporaryFolder(t *testing.T) {
	c, err := controlplane.Start(t.Context(), controlplane.Options{})
	require.NoError(t, err)
	require.Len(t, running(t, c.Dir), 2, "etcd and kube-apiserver")

	require.NoError(t, c.Stop())
	require.Empty(t, running(t, c.Dir))
	require.NoDirExists(t, c.Dir)
	require.NoError(t, c.Stop(), "stopping twice")
	require.ErrorContains(t, c.StartComponent(controlplane.Etcd), "was stopped")
}

func TestCrashedComponentStartsAgain(t *testing.T) {
	kwok := func() (pids []int) {
		for _, line := range running(t, plane.Dir) {
			var pid int
			var path string
			_, err := fmt.Sscan(line, &pid, &path)
			require.NoError(t, err)
			if filepath.Base(path) == controlplane.Kwok {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	before := kwok()
	require.Len(t, before, 1)
	require.NoError(t, syscall.Kill(before[0], syscall.SIGKILL))
	eventually(t, func(c *assert.CollectT) { assert.NoError(c, plane.StartComponent(controlplane.Kwok)) })
	require.Len(t, kwok(), 1)
	require.NotEqual(t, before, kwok())
}

func TestLaunchedCommandEndsWithThePlane(t *testing.T) {
	c, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	command := exec.Command("sleep", "1000")
	require.NoError(t, c.Launch(command))
	require.NoError(t, c.Stop())
	require.Error(t, command.Wait(), "killed")
	require.ErrorContains(t, c.Launch(exec.Command("true")), "was stopped")
}

func TestProcessesEndWithAKilledTest(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), childVariable+"="+dir)
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer child.Process.Kill()

	var up bool
	for lines := bufio.NewScanner(stdout); !up && lines.Scan(); {
		up = json.Unmarshal(lines.Bytes(), &up) == nil && up
	}
	require.True(t, up, "the child has started its control plane")
	require.Len(t, running(t, dir), 2)

	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	eventually(t, func(c *assert.CollectT) { assert.Empty(c, running(c, dir)) })
}
