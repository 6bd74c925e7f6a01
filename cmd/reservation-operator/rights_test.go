package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestMissingRightsAreThoseThatAreRefused(t *testing.T) {
	c := fake.NewClientset()
	c.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = asked.Resource != "configmaps" || asked.Name == "" && asked.Verb != "create"
		return true, review, nil
	})
	missing, err := missingRights(t.Context(), c, needed(false))
	require.NoError(t, err)
	require.Equal(t, []right{
		{verb: "create", resource: "configmaps", namespace: "reservation-operator"},
		{verb: "get", resource: "configmaps", namespace: "reservation-operator", name: "reservation-index"},
		{verb: "update", resource: "configmaps", namespace: "reservation-operator", name: "reservation-index"},
	}, missing)
}

func TestTheLeaseIsNeededForLeaderElectionOnly(t *testing.T) {
	lease := right{verb: "create", group: "coordination.k8s.io", resource: "leases", namespace: "reservation-operator"}
	require.Contains(t, needed(true), lease)
	require.NotContains(t, needed(false), lease)
}

func TestRightsMessageHasTheCommandToCheckWith(t *testing.T) {
	for name, test := range map[string]struct {
		missing []right
		want    string
	}{
		"one, in the whole cluster": {
			[]right{{verb: "list", resource: "nodes"}},
			"the operator cannot start: it may not list nodes. Check with: kubectl auth can-i list nodes --as=USER; " +
				"give the operator the roles of config/rbac",
		},
		"two, the first of them by name": {
			[]right{
				{verb: "get", resource: "configmaps", namespace: "own", name: "index"},
				{verb: "watch", group: "example.com", resource: "things"},
			},
			"the operator cannot start: it may not get configmaps/index --namespace=own, watch things.example.com. " +
				"Check with: kubectl auth can-i get configmaps/index --namespace=own --as=USER; give the operator the roles of config/rbac",
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, rightsMessage(test.missing, "USER"))
		})
	}
}
