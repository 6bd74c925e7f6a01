package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestEveryRightOfTheOperatorIsListed compares all that is bound to the operator's service account with a list that a
// person has read. A right that comes or goes changes testdata/rights.txt, or this fails.
func TestEveryRightOfTheOperatorIsListed(t *testing.T) {
	installed(t)
	want, err := os.ReadFile(filepath.Join("testdata", "rights.txt"))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(strings.Split(strings.TrimSpace(string(want)), "\n"), rightsOf(t, "reservation-operator", "reservation-operator")),
		"- is listed and not granted, + is granted and not listed")
}

// rightsOf returns a line for each kind of object that a service account may do something with: where, what, and its
// verbs, sorted. Roles are read from the cluster, by whatever binds them.
func rightsOf(t *testing.T, namespace, name string) []string {
	t.Helper()
	rbac := kubernetes.NewForConfigOrDie(plane.Config).RbacV1()
	verbs := map[string][]string{}
	gather := func(where string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			require.Empty(t, rule.NonResourceURLs)
			for _, what := range objectsOf(rule) {
				verbs[where+" "+what] = append(verbs[where+" "+what], rule.Verbs...)
			}
		}
	}
	rulesOf := func(where string, ref rbacv1.RoleRef) []rbacv1.PolicyRule {
		if ref.Kind == "Role" {
			role, err := rbac.Roles(where).Get(t.Context(), ref.Name, metav1.GetOptions{})
			require.NoError(t, err)
			return role.Rules
		}
		role, err := rbac.ClusterRoles().Get(t.Context(), ref.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return role.Rules
	}
	ours := func(subjects []rbacv1.Subject) bool {
		return slices.Contains(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name})
	}
	everywhere, err := rbac.ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, b := range everywhere.Items {
		if ours(b.Subjects) {
			gather("cluster", rulesOf("", b.RoleRef))
		}
	}
	somewhere, err := rbac.RoleBindings("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, b := range somewhere.Items {
		if ours(b.Subjects) {
			gather(b.Namespace, rulesOf(b.Namespace, b.RoleRef))
		}
	}
	var lines []string
	for what, all := range verbs {
		slices.Sort(all)
		lines = append(lines, what+": "+strings.Join(slices.Compact(all), " "))
	}
	slices.Sort(lines)
	return lines
}

// objectsOf returns what a rule is about, as RESOURCE.GROUP/SUBRESOURCE, with the name in brackets if it is about one.
func objectsOf(rule rbacv1.PolicyRule) []string {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []string
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			what, subresource, _ := strings.Cut(resource, "/")
			if group != "" {
				what += "." + group
			}
			if subresource != "" {
				what += "/" + subresource
			}
			for _, name := range names {
				if name != "" {
					all = append(all, what+" ["+name+"]")
				} else {
					all = append(all, what)
				}
			}
		}
	}
	return all
}
