package controlplane

import (
	"errors"
	"os/exec"
)

// Launch starts a command that ends with this process at the latest, like the components do (on Linux; elsewhere a
// killed test process leaves it running). It replaces cmd.SysProcAttr. Waiting for the command is the caller's
// business. After Stop it is an error.
func (c *ControlPlane) Launch(cmd *exec.Cmd) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.stopped {
		return errStopped
	}
	return c.launcher.start(cmd)
}

var errStopped = errors.New("the control plane was stopped")
