package install

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
	"github.com/reservation-operator/reservation-operator/test/house"
)

const operator = "system:serviceaccount:reservation-operator:reservation-operator"

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
	for _, name := range []string{"plain-01", "plain-02"} { // they stay: pods of nodes that are gone are long in going
		_, err := nodes.Create(t.Context(), controlplane.Node(name, nil), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	kubectl(t, "-n", "reservation-operator", "rollout", "status", "deployment/reservation-operator", "--timeout=60s")
}

// may asks the API server whether a user may do something: "VERB RESOURCE[.GROUP][/SUBRESOURCE] [NAMESPACE/][NAME]".
func may(t require.TestingT, user, question string) bool {
	words := append(strings.Fields(question), "")
	resource, subresource, _ := strings.Cut(words[1], "/")
	resource, group, _ := strings.Cut(resource, ".")
	namespace, name, in := strings.Cut(words[2], "/")
	if !in {
		namespace, name = "", words[2]
	}
	review, err := kubernetes.NewForConfigOrDie(plane.Config).AuthorizationV1().SubjectAccessReviews().Create(context.Background(),
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: words[0], Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name,
			},
		}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return review.Status.Allowed
}

// TestThePagesQuestion is the page's own command.
func TestThePagesQuestion(t *testing.T) {
	installed(t)
	out := kubectl(t, "auth", "can-i", "patch", "nodes", "--as="+operator)
	require.True(t, strings.HasSuffix(out, "yes\n"), out)
}

func TestTheOperatorMayDoWhatItMustAndNoMore(t *testing.T) {
	installed(t)
	const reservations, admission = ".scheduling.coreweave.cloud", ".admissionregistration.k8s.io"
	for question, want := range map[string]bool{
		"patch nodes":                                                                     true,
		"update nodes":                                                                    true,
		"create pods/eviction tenant-foo/":                                                true,
		"delete pods tenant-foo/":                                                         true,
		"patch reservations" + reservations + "/status":                                   true,
		"patch reservationbindings" + reservations + "/status":                            true,
		"patch reservationsources" + reservations + "/status":                             true,
		"update configmaps reservation-operator/reservation-index":                        true,
		"create leases.coordination.k8s.io reservation-operator/":                         true,
		"update leases.coordination.k8s.io reservation-operator/reservation-operator":     true,
		"create pods reservation-fence-probe/":                                            true,
		"create validatingadmissionpolicies" + admission:                                  true,
		"update validatingadmissionpolicies" + admission + " reservation-fence-bindings":  true,
		"update mutatingwebhookconfigurations" + admission + " reservation-pod-injection": true,
		"get secrets reservation-operator/tenants-git":                                    true,
		"delete nodes":                                               false,
		"create pods tenant-foo/":                                    false,
		"get secrets kube-system/":                                   false,
		"get secrets tenant-foo/":                                    false,
		"update configmaps kube-system/other":                        false,
		"update configmaps tenant-foo/":                              false,
		"update validatingadmissionpolicies" + admission + " others": false,
		"delete validatingadmissionpolicies" + admission:             false,
		"update clusterroles.rbac.authorization.k8s.io":              false,
		"create serviceaccounts/token reservation-operator/":         false,
	} {
		t.Run(question, func(t *testing.T) {
			require.Equal(t, want, may(t, operator, question))
		})
	}
}

func TestPeopleGetTheirRoles(t *testing.T) {
	installed(t)
	kubectl(t, "create", "namespace", "people")
	kubectl(t, "create", "rolebinding", "admins", "-n", "people", "--clusterrole=admin", "--user=tenant")
	kubectl(t, "create", "clusterrolebinding", "platform", "--clusterrole=reservation-editor", "--user=platform")
	const group = ".scheduling.coreweave.cloud"
	eventually(t, func(c *assert.CollectT) { // a controller aggregates the roles
		assert.True(c, may(c, "tenant", "create reservationbindings"+group+" people/"))
		assert.False(c, may(c, "tenant", "create reservationbindings"+group+" tenant-foo/"))
		assert.False(c, may(c, "tenant", "update reservationbindings"+group+"/status people/"))
		assert.False(c, may(c, "tenant", "create reservations"+group))
		assert.False(c, may(c, "tenant", "patch nodes"))
		assert.True(c, may(c, "platform", "create reservations"+group))
		assert.True(c, may(c, "platform", "delete reservationsources"+group))
		assert.False(c, may(c, "platform", "patch nodes"))
	})
}

// The condition of an unproven fence says: kubectl apply -k config/rbac. That brings all that the probe's pod needs.
func TestTheProbesNamespaceIsWhole(t *testing.T) {
	installed(t)
	kubectl(t, "get", "serviceaccount", "--namespace", v1alpha1.ProbeNamespace, "reservation-fence-probe")
}

func TestSamplesAreAccepted(t *testing.T) {
	installed(t)
	t.Cleanup(func() {
		_, _ = plane.Kubectl(context.Background(), "delete", "-k", root("config", "samples"), "--wait=false")
	})
	out := kubectl(t, "apply", "-k", root("config", "samples"))
	require.Equal(t, 5, strings.Count(out, " created"), out)
	kubectl(t, "apply", "--server-side", "--dry-run=server", "-f", root("config", "samples", "pod.yaml"))
	// A source on the example takes over what was tried by hand: both say the same, so nothing conflicts.
	kubectl(t, "apply", "--server-side", "--dry-run=server", "--field-manager="+v1alpha1.FieldManagerSource, "-k", root("tenants-example", "tenants", "tenant-foo"))
	kubectl(t, "apply", "--server-side", "--dry-run=server", "-f", root("config", "samples", "reservationsource.yaml"))
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
