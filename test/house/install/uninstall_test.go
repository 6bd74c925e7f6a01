package install

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/reservation-operator/reservation-operator/webhook/fence"
)

// TestUninstall is the last one, by the name of its file: it takes everything down by make uninstall.
func TestUninstall(t *testing.T) {
	installed(t)
	log.SetLogger(zap.New(zap.WriteTo(io.Discard))) // the client's
	admin, err := client.New(plane.Config, client.Options{})
	require.NoError(t, err)
	fences := fence.Settings{Namespace: "reservation-operator", KeepOut: true}
	require.NoError(t, (&fence.Installer{Client: admin, Settings: fences}).Ensure(t.Context()))
	kubectl(t, "apply", "-f", root("config", "samples", "reservation.yaml"))

	uninstall := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "uninstall", "KUBECTL="+plane.KubectlPath())
		cmd.Dir, cmd.Env = root(), append(os.Environ(), plane.KubectlEnv()...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := uninstall()
	require.Error(t, err)
	require.Contains(t, out, "tenant-foo-reservation")
	require.Contains(t, kubectl(t, "get", "deployments", "-A"), "reservation-operator", "nothing was touched")

	kubectl(t, "delete", "reservation", "tenant-foo-reservation")
	out, err = uninstall()
	require.NoError(t, err, out)
	left := kubectl(t, "get", "validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingadmissionpolicies,"+
		"mutatingadmissionpolicybindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,crds,clusterroles,clusterrolebindings", "-o", "name")
	for name := range strings.Lines(left) {
		require.NotRegexp(t, "reservation|coreweave", name)
	}
	eventually(t, func(c *assert.CollectT) {
		assert.NotContains(c, kubectl(t, "get", "namespaces", "-o", "name"), "reservation")
	})
	out, err = uninstall()
	require.NoError(t, err, "a second time: %s", out)
}
