package e2e

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// TestBadRepositoriesAreExplained follows one repository per kind of bad input and reads why it is not applied. The
// operator must stay the same process all along.
func TestBadRepositoriesAreExplained(t *testing.T) {
	pid := shared.Operator.PID()
	empty := filepath.Join(t.TempDir(), "empty.git")
	require.NoError(t, exec.CommandContext(t.Context(), "git", "init", "--quiet", "--bare", empty).Run())
	with := func(files map[string]string) string { return repository(t, files).URL }
	good := reservationYAML("fine")
	for name, bad := range map[string]struct {
		url, path, branch string
		wantReason        string
		wantMessage       []string
	}{
		"unreachable": {url: "http://127.0.0.1:1/tenants.git",
			wantReason: v1alpha1.ReasonRepositoryUnreachable, wantMessage: []string{"127.0.0.1:1"}},
		"no repository": {url: t.TempDir(), wantReason: v1alpha1.ReasonRepositoryNotFound},
		"no such branch": {url: with(map[string]string{"a.yaml": good}), branch: "nowhere",
			wantReason: v1alpha1.ReasonBranchNotFound, wantMessage: []string{"nowhere"}},
		"empty repository": {url: empty, wantReason: v1alpha1.ReasonRepositoryEmpty},
		"no such path": {url: with(map[string]string{"a.yaml": good}), path: "tenants/none",
			wantReason: v1alpha1.ReasonPathNotFound, wantMessage: []string{"tenants/none"}},
		"no objects": {url: with(nil), wantReason: v1alpha1.ReasonCommitRejected, wantMessage: []string{"allowEmpty"}},
		"broken YAML": {url: with(map[string]string{"a.yaml": "kind: [\n"}),
			wantReason: v1alpha1.ReasonCommitRejected, wantMessage: []string{"a.yaml"}},
		"unknown kind": {url: with(map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: y}\n"}),
			wantReason: v1alpha1.ReasonCommitRejected, wantMessage: []string{"a.yaml", "Secret", "x"}},
		"unknown field": {url: with(map[string]string{"a.yaml": good + "  reservdNodes: [a]\n"}),
			wantReason: v1alpha1.ReasonCommitRejected, wantMessage: []string{"a.yaml", "fine-reservation", "reservdNodes"}},
		"duplicate key": {url: with(map[string]string{"a.yaml": good + "  tenant: twice\n"}),
			wantReason: v1alpha1.ReasonCommitRejected, wantMessage: []string{"a.yaml", "tenant"}},
		"duplicate object": {url: with(map[string]string{"a.yaml": good, "b.yaml": good}),
			wantReason: v1alpha1.ReasonCommitRejected, wantMessage: []string{"a.yaml", "b.yaml", "fine-reservation"}},
		"cyclic kustomization": {url: with(map[string]string{
			"a/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "resources: [../a]\n"}),
			wantReason: v1alpha1.ReasonCommitRejected, wantMessage: []string{"kustomization.yaml", "each other"}},
		"alias bomb": {url: with(map[string]string{"a.yaml": aliasBomb()}),
			wantReason: v1alpha1.ReasonCommitRejected, wantMessage: []string{"a.yaml", "alias"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &v1alpha1.ReservationSource{
				ObjectMeta: metav1.ObjectMeta{Name: "bad-" + strings.ToLower(strings.ReplaceAll(name, " ", "-"))},
				Spec:       v1alpha1.ReservationSourceSpec{URL: bad.url, Path: bad.path},
			}
			if bad.branch != "" {
				s.Spec.Ref = &v1alpha1.GitReference{Branch: bad.branch}
			}
			create(t, s)
			eventually(t, func(c *assert.CollectT) {
				ready := ready(source(c, s.Name).Status.Conditions)
				require.Equal(c, metav1.ConditionFalse, ready.Status)
				require.Equal(c, bad.wantReason, ready.Reason, ready.Message)
				for _, part := range bad.wantMessage {
					require.Contains(c, ready.Message, part)
				}
			})
			require.Empty(t, source(t, s.Name).Status.Inventory)
		})
	}
	require.Equal(t, pid, shared.Operator.PID())
	require.NoError(t, exec.CommandContext(t.Context(), "kill", "-0", strconv.Itoa(pid)).Run(), "the operator still runs")
}

func TestMissingNodePermissionIsExplained(t *testing.T) {
	name := ownNodes(t, 1)[0]
	restore := nodeRights(t, "get", "list", "watch")
	defer restore()
	eventually(t, func(c *assert.CollectT) {
		out, err := shared.Kubectl(t.Context(), "auth", "can-i", "patch", "nodes",
			"--as=system:serviceaccount:reservation-operator:reservation-operator")
		require.Error(c, err, out)
	})

	r := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "forbidden-reservation"},
		Spec:       v1alpha1.ReservationSpec{Tenant: "forbidden", ReservedNodes: []string{name}},
	}
	create(t, r)
	eventually(t, func(c *assert.CollectT) {
		ready := ready(reservation(c, r.Name).Status.Conditions)
		require.Equal(c, v1alpha1.ReasonNodePatchForbidden, ready.Reason, ready.Message)
		require.Contains(c, ready.Message, "kubectl auth can-i patch nodes --as=system:serviceaccount:reservation-operator:reservation-operator")
	})
	restore()
	eventually(t, func(c *assert.CollectT) { requireLocked(c, name, "forbidden", r.Name) })
}

// aliasBomb returns a small document that expands to a billion values.
func aliasBomb() string {
	text := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'i'; c++ {
		prev := string(c - 1)
		text += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+prev+", ", 9), ", ") + "]\n"
	}
	return text
}
