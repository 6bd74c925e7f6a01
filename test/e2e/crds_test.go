package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/cluster"
)

func TestAnOperatorWithoutItsCRDsWaitsAndSaysSo(t *testing.T) {
	create(t, &v1alpha1.ReservationSource{
		ObjectMeta: metav1.ObjectMeta{Name: "early"}, Spec: v1alpha1.ReservationSourceSpec{URL: "/nowhere"},
	})
	shared.KillOperator()
	_, err := shared.Kubectl(t.Context(), "delete", "crd", "reservationbindings.scheduling.coreweave.cloud")
	require.NoError(t, err)

	started := make(chan error, 1)
	go func() { started <- shared.StartOperator(t.Context()) }()
	eventually(t, func(c *assert.CollectT) {
		ready := ready(source(c, "early").Status.Conditions)
		require.Equal(c, v1alpha1.ReasonCRDMissing, ready.Reason)
		require.Contains(c, ready.Message, "reservationbindings")
		require.Contains(c, ready.Message, "kubectl apply -k config/crd")
	})
	require.NoError(t, shared.Apply(t.Context(), cluster.Root("config", "crd")))
	require.NoError(t, <-started, "it goes on by itself, as the same process")
	eventually(t, func(c *assert.CollectT) {
		require.Equal(c, v1alpha1.ReasonRepositoryNotFound, ready(source(c, "early").Status.Conditions).Reason)
	})
}
