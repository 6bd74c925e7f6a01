package e2e

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func TestAnOperatorWithoutItsRightsWaitsAndSaysSo(t *testing.T) {
	waits(t, "rightless", func() (restore func()) {
		restoreNodes, restoreOwn := nodeRights(t), withoutRole(t)
		restore = func() { restoreNodes(); restoreOwn() }
		t.Cleanup(restore)
		return restore
	}, v1alpha1.ReasonForbidden,
		"list nodes, watch nodes", "get configmaps/reservation-index --namespace=reservation-operator",
		"kubectl auth can-i list nodes --as=system:serviceaccount:reservation-operator:reservation-operator")
}

// nodeRights leaves the operator only these rights on nodes; the function that it returns gives the others back, once.
func nodeRights(t *testing.T, verbs ...string) (restore func()) {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	key := types.NamespacedName{Name: "reservation-operator"}
	require.NoError(t, shared.Client.Get(t.Context(), key, role))
	var rest []rbacv1.PolicyRule
	for _, rule := range role.Rules {
		if slices.Equal(rule.Resources, []string{"nodes"}) {
			if rule.Verbs = verbs; len(verbs) == 0 {
				continue
			}
		}
		rest = append(rest, rule)
	}
	require.NotEqual(t, role.Rules, rest)
	write := func(rules []rbacv1.PolicyRule) {
		live := &rbacv1.ClusterRole{}
		require.NoError(t, shared.Client.Get(context.Background(), key, live))
		live.Rules = rules
		require.NoError(t, shared.Client.Update(context.Background(), live))
	}
	write(rest)
	return sync.OnceFunc(func() { write(role.Rules) })
}

// withoutRole takes the role in its own namespace from the operator; the function that it returns gives it back, once.
func withoutRole(t *testing.T) (restore func()) {
	t.Helper()
	role := &rbacv1.Role{}
	key := types.NamespacedName{Namespace: v1alpha1.OperatorNamespace, Name: "reservation-operator"}
	require.NoError(t, shared.Client.Get(t.Context(), key, role))
	require.NoError(t, shared.Client.Delete(t.Context(), role))
	role.ResourceVersion = ""
	return sync.OnceFunc(func() { require.NoError(t, shared.Client.Create(context.Background(), role)) })
}
