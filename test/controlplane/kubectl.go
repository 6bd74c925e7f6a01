package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// KubectlPath is the kubectl of the same version as the API server.
func (c *ControlPlane) KubectlPath() string { return filepath.Join(c.Binaries.Dir, "kubectl") }

// KubectlEnv is what to add to the environment of a kubectl or one of its plugins, so that it talks to this control
// plane as the administrator, whatever the user's own settings and caches say.
func (c *ControlPlane) KubectlEnv() []string {
	return []string{
		"KUBECONFIG=" + c.Kubeconfig,
		// Another control plane with other kinds may have had the same port, under which discovery is cached.
		"KUBECACHEDIR=" + filepath.Join(c.Dir, "kubectl-cache"),
		"KUBECTL_KUBERC=false",
	}
}

// Kubectl runs kubectl as the administrator and returns what it prints on standard output and error, in that order of
// writing. If it ends with another status than 0, the error carries the output too.
func (c *ControlPlane) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.KubectlPath(), args...)
	cmd.Env = append(os.Environ(), c.KubectlEnv()...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Apply applies manifests by server-side apply, one path after the other: a folder with a kustomization is built
// first, any other folder or file is applied as it is.
func (c *ControlPlane) Apply(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		flag := "-f"
		for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
			if exists(filepath.Join(path, name)) {
				flag = "-k"
			}
		}
		if _, err := c.Kubectl(ctx, "apply", "--server-side", flag, path); err != nil {
			return err
		}
	}
	return nil
}
