package fence_test

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/webhook/fence"
)

var marker = regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:(.+)$`)

// grantMarkers gives a user exactly the permissions that the rbac markers of this package ask for.
func grantMarkers(t *testing.T, user string) {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{} // by namespace, empty for all
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range marker.FindAllStringSubmatch(string(text), -1) {
			namespace, rule := parseMarker(match[1])
			rules[namespace] = append(rules[namespace], rule)
		}
	}
	c := cluster(t)
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	for namespace, rules := range rules {
		name := metav1.ObjectMeta{Namespace: namespace, Name: "markers-" + user}
		var role, binding client.Object
		if namespace == "" {
			role = &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}
			binding = &rbacv1.ClusterRoleBinding{ObjectMeta: name, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name}}
		} else {
			role = &rbacv1.Role{ObjectMeta: name, Rules: rules}
			binding = &rbacv1.RoleBinding{ObjectMeta: name, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name}}
		}
		require.NoError(t, c.Create(t.Context(), role))
		require.NoError(t, c.Create(t.Context(), binding))
		t.Cleanup(func() { _, _ = c.Delete(after(t), binding), c.Delete(after(t), role) })
	}
}

func parseMarker(text string) (namespace string, rule rbacv1.PolicyRule) {
	for _, part := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		values := strings.Split(strings.Trim(value, `"`), ";")
		switch key {
		case "groups":
			rule.APIGroups = values
		case "resources":
			rule.Resources = values
		case "verbs":
			rule.Verbs = values
		case "resourceNames":
			rule.ResourceNames = values
		case "namespace":
			namespace = values[0]
		}
	}
	return namespace, rule
}

func TestTheMarkersAreEnoughToInstallAndProbe(t *testing.T) {
	admin := cluster(t)
	grantMarkers(t, "installer")
	c, err := client.New(live.plane.AsUser("installer"), client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	for _, object := range fence.Policies(settings) {
		require.NoError(t, client.IgnoreNotFound(admin.Delete(t.Context(), object.(client.Object))))
	}
	t.Cleanup(func() {
		assert.NoError(t, (&fence.Installer{Client: admin, Settings: settings}).Ensure(after(t)))
		assert.NoError(t, fence.Probe{Client: admin}.Await(after(t), 1))
	})
	installer := &fence.Installer{Client: c, Settings: settings}
	eventually(t, func(ct *assert.CollectT) {
		assert.NoError(ct, installer.Ensure(t.Context()))
	})
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: fence.PodsName}}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(binding), binding))
	binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
	require.NoError(t, admin.Update(t.Context(), binding))
	require.NoError(t, installer.Ensure(t.Context()), "updating")
	require.NoError(t, fence.Probe{Client: c}.Await(t.Context(), 1))

	err = c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "kube-root-ca.crt"}, &corev1.ConfigMap{})
	require.True(t, apierrors.IsForbidden(err), "no other ConfigMap can be read")
}
