package install

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/reservation-operator/reservation-operator/test/controlplane"
	"github.com/reservation-operator/reservation-operator/test/house"
	"github.com/reservation-operator/reservation-operator/webhook/fence"
)

const operator = "--as=system:serviceaccount:reservation-operator:reservation-operator"

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	everything := controlplane.Options{Scheduler: true, ControllerManager: true, Kubelets: true}
	controlplane.Main(m, everything, func(c *controlplane.ControlPlane) { plane = c })
}

func root(elements ...string) string {
	return filepath.Join(append([]string{house.Root()}, elements...)...)
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := plane.Kubectl(t.Context(), args...)
	require.NoError(t, err)
	return out
}

var once sync.Once

// installed applies config/default as the README says, for all tests together.
func installed(t *testing.T) {
	t.Helper()
	once.Do(func() {
		kubectl(t, "apply", "-k", root("config", "default"))
		kubectl(t, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
	})
}

func eventually(t *testing.T, check func(*assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, time.Minute, 200*time.Millisecond)
}

func TestEverythingIsAppliedInOneGo(t *testing.T) {
	installed(t)
	for line := range strings.Lines(kubectl(t, "apply", "-k", root("config", "default"))) {
		// kubectl apply sends a PodDisruptionBudget's selector each time, changed or not.
		if !strings.HasPrefix(line, "poddisruptionbudget") {
			require.True(t, strings.HasSuffix(line, " unchanged\n"), line)
		}
	}
}

func TestTheOperatorsPodsAreAcceptedAndRun(t *testing.T) {
	installed(t)
	nodes := kubernetes.NewForConfigOrDie(plane.Config).CoreV1().Nodes()
	for _, name := range []string{"plain-01", "plain-02"} {
		_, err := nodes.Create(t.Context(), controlplane.Node(name, nil), metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = nodes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
	kubectl(t, "-n", "reservation-operator", "rollout", "status", "deployment/reservation-operator", "--timeout=60s")
}

func TestTheOperatorMayDoWhatItMustAndNoMore(t *testing.T) {
	installed(t)
	for question, want := range map[string]string{
		"patch nodes":  "yes", // the page's own question
		"update nodes": "yes",
		"create pods --subresource=eviction -n tenant-foo":               "yes",
		"patch reservations --subresource=status":                        "yes",
		"update configmaps/reservation-index -n reservation-operator":    "yes",
		"create leases.coordination.k8s.io -n reservation-operator":      "yes",
		"update leases/reservation-operator -n reservation-operator":     "yes",
		"create pods -n reservation-fence-probe":                         "yes",
		"create validatingadmissionpolicies":                             "yes",
		"update validatingadmissionpolicies/reservation-fence-bindings":  "yes",
		"update mutatingwebhookconfigurations/reservation-pod-injection": "yes",
		"delete nodes":                              "no",
		"delete pods -n tenant-foo":                 "no",
		"create pods -n tenant-foo":                 "no",
		"get secrets -n kube-system":                "no",
		"get secrets -n tenant-foo":                 "no",
		"update configmaps/other -n kube-system":    "no",
		"update validatingadmissionpolicies/others": "no",
		"delete validatingadmissionpolicies":        "no",
		"update clusterroles":                       "no",
	} {
		t.Run(question, func(t *testing.T) {
			out, _ := plane.Kubectl(t.Context(), append([]string{"auth", "can-i", operator}, strings.Fields(question)...)...)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			require.Equal(t, want, lines[len(lines)-1], out)
		})
	}
}

func TestPeopleGetTheirRoles(t *testing.T) {
	installed(t)
	kubectl(t, "create", "namespace", "people")
	kubectl(t, "create", "rolebinding", "admins", "-n", "people", "--clusterrole=admin", "--user=tenant")
	kubectl(t, "create", "clusterrolebinding", "platform", "--clusterrole=reservation-editor", "--user=platform")
	eventually(t, func(c *assert.CollectT) { // a controller aggregates the roles
		for question, want := range map[string]string{
			"--as=tenant create reservationbindings -n people":                      "yes",
			"--as=tenant create reservationbindings -n tenant-foo":                  "no",
			"--as=tenant update reservationbindings --subresource=status -n people": "no",
			"--as=tenant create reservations":                                       "no",
			"--as=tenant patch nodes":                                               "no",
			"--as=platform create reservations":                                     "yes",
			"--as=platform delete reservationsources":                               "yes",
			"--as=platform patch nodes":                                             "no",
		} {
			out, _ := plane.Kubectl(t.Context(), append([]string{"auth", "can-i"}, strings.Fields(question)...)...)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			assert.Equal(c, want, lines[len(lines)-1], question)
		}
	})
}

func TestSamplesAreAccepted(t *testing.T) {
	installed(t)
	kubectl(t, "create", "namespace", "tenant-foo")
	t.Cleanup(func() {
		_, _ = plane.Kubectl(context.Background(), "delete", "namespace", "tenant-foo", "--wait=false")
	})
	out := kubectl(t, "apply", "--dry-run=server", "-k", root("config", "samples"))
	require.Equal(t, 4, strings.Count(out, "(server dry run)"), out)
	kubectl(t, "apply", "--server-side", "--dry-run=server", "-f", root("config", "samples", "pod.yaml"))
	kubectl(t, "apply", "--server-side", "--dry-run=server", "-f", root("tenants-example", "platform", "reservationsource.yaml"))
}

func TestExplainReadsWell(t *testing.T) {
	installed(t)
	for field, want := range map[string]string{
		"reservation.spec.evictOnRelease":          "Whether to evict the tenant's pods when a node is released instead of waiting for them to end.",
		"reservation.spec.reservedNodes":           "The names of the nodes to reserve: exactly these.",
		"reservation.spec.taintEffect":             "ENUM: NoSchedule PreferNoSchedule NoExecute",
		"reservation.status.pending.reason":        "Why it is not held.",
		"reservationbinding.spec.podSelector":      "{} is every pod.",
		"reservationsource.spec.interval":          "How often the repository is asked for news",
		"reservationsource.status.history.reverts": "The commit that it reverts.",
		"rsv": "Reservation locks nodes for a tenant",
	} {
		t.Run(field, func(t *testing.T) {
			out := strings.Join(strings.Fields(kubectl(t, "explain", field)), " ")
			require.Contains(t, out, want)
		})
	}
}

// TestColumns is the page's own table, and its list of bindings.
func TestColumns(t *testing.T) {
	installed(t)
	kubectl(t, "create", "namespace", "columns")
	apply := func(file string) {
		t.Helper()
		text, err := os.ReadFile(root("config", "samples", file))
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), file)
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "namespace: tenant-foo", "namespace: columns")), 0o600))
		kubectl(t, "apply", "-f", path)
		t.Cleanup(func() { _, _ = plane.Kubectl(context.Background(), "delete", "-f", path) })
	}
	apply("reservation.yaml")
	apply("reservationbinding.yaml")
	apply("reservationsource.yaml")
	kubectl(t, "patch", "reservation", "tenant-foo-reservation", "--subresource=status", "--type=merge", "-p", `{"status":{"reserved":4}}`)

	table := func(args ...string) [][]string {
		var rows [][]string
		for line := range strings.Lines(kubectl(t, append([]string{"get"}, args...)...)) {
			rows = append(rows, strings.Fields(line))
		}
		return rows
	}
	rows := table("reservations")
	require.Equal(t, []string{"NAME", "TENANT", "RESERVED", "AGE"}, rows[0])
	require.Equal(t, []string{"tenant-foo-reservation", "tenant-foo", "4"}, rows[1][:3])
	require.Equal(t, rows[0], table("rsv")[0])
	require.Equal(t, []string{"NAME", "TENANT", "RESERVED", "AGE", "READY", "MESSAGE", "REVISION"}, table("rsv", "-o", "wide")[0])
	require.Equal(t, []string{"NAME", "RESERVATION", "READY", "AGE"}, table("reservationbindings", "-n", "columns")[0])
	require.Equal(t, []string{"NAME", "RESERVATION", "READY", "AGE", "TENANT", "MESSAGE"}, table("rsvb", "-n", "columns", "-o", "wide")[0])
	require.Equal(t, []string{"NAME", "URL", "READY", "APPLIED", "AGE"}, table("rsvsrc")[0])
}

// TestUninstall is the last one: it takes everything down by make uninstall.
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
