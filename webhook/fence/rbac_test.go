package fence_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
	"github.com/reservation-operator/reservation-operator/webhook/fence"
)

var marker = regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:(.+)$`)

// grantMarkers gives a user exactly the permissions that the rbac markers of this package ask for.
func grantMarkers(t *testing.T, c client.Client, user string) {
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

// It has a control plane of its own: policies that were there before could not be removed without harm (see keepOut).
func TestTheMarkersAreEnoughToInstallAndProbe(t *testing.T) {
	cluster(t)
	plane, err := controlplane.Start(t.Context(), controlplane.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, plane.Stop()) })
	admin, err := client.New(plane.Config, client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	index := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: v1alpha1.IndexName}}
	index.Data = allocate.Index{Version: 1}.Data()
	// Roles can only be bound in namespaces that are there, so config/ has the probe's as well.
	operatorNamespace, probeNamespace := named(operator), named(v1alpha1.ProbeNamespace)
	for _, object := range []client.Object{&operatorNamespace, &probeNamespace, index} {
		require.NoError(t, admin.Create(t.Context(), object))
	}
	grantMarkers(t, admin, "installer")
	c, err := client.New(plane.AsUser("installer"), client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)

	installer := &fence.Installer{Client: c, Settings: settings}
	eventually(t, func(ct *assert.CollectT) { // until the API server has seen the roles
		assert.NoError(ct, installer.Ensure(t.Context()))
	})
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: fence.PodsName}}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(binding), binding))
	binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
	require.NoError(t, admin.Update(t.Context(), binding))
	require.NoError(t, installer.Ensure(t.Context()), "updating")
	require.NoError(t, fence.Probe{Client: c}.Await(t.Context(), 1))

	err = c.Get(t.Context(), client.ObjectKey{Namespace: operator, Name: "another"}, &corev1.ConfigMap{})
	require.True(t, apierrors.IsForbidden(err), "no other ConfigMap can be read")
}
