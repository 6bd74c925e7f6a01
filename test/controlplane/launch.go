package controlplane

import "os/exec"

// Launch starts a command that ends with this process at the latest, like the components do (on Linux; elsewhere a
// killed test process leaves it running). It replaces cmd.SysProcAttr. Waiting for the command is the caller's
// business. It must not be called after Stop.
func (c *ControlPlane) Launch(cmd *exec.Cmd) error { return c.launcher.start(cmd) }
