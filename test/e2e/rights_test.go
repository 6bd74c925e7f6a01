package e2e

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func TestAnOperatorWithoutItsRightsWaitsAndSaysSo(t *testing.T) {
	create(t, &v1alpha1.ReservationSource{
		ObjectMeta: metav1.ObjectMeta{Name: "rightless"}, Spec: v1alpha1.ReservationSourceSpec{URL: "/nowhere"},
	})
	shared.KillOperator()
	restoreNodes, restoreOwn := nodeRights(t), withoutRole(t)
	t.Cleanup(func() { restoreNodes(); restoreOwn() })

	started := make(chan error, 1)
	go func() { started <- shared.StartOperator(t.Context()) }()
	eventually(t, func(c *assert.CollectT) {
		ready := ready(source(c, "rightless").Status.Conditions)
		require.Equal(c, v1alpha1.ReasonForbidden, ready.Reason)
		require.Contains(c, ready.Message, "list nodes, watch nodes")
		require.Contains(c, ready.Message, "get configmaps/reservation-index --namespace=reservation-operator")
		require.Contains(c, ready.Message, "kubectl auth can-i list nodes --as=system:serviceaccount:reservation-operator:reservation-operator")
	})
	restoreNodes()
	restoreOwn()
	require.NoError(t, <-started, "it goes on by itself, as the same process")
	eventually(t, func(c *assert.CollectT) {
		require.Equal(c, v1alpha1.ReasonRepositoryNotFound, ready(source(c, "rightless").Status.Conditions).Reason)
	})
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
