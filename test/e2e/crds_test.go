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
	waits(t, "early", func() (restore func()) {
		_, err := shared.Kubectl(t.Context(), "delete", "crd", "reservationbindings.scheduling.coreweave.cloud")
		require.NoError(t, err)
		return func() { require.NoError(t, shared.Apply(t.Context(), cluster.Root("config", "crd"))) }
	}, v1alpha1.ReasonCRDMissing, "reservationbindings", "kubectl apply -k config/crd")
}

// waits starts the operator without something that it needs, requires that it says so on a source, with these texts,
// and that it goes on by itself once that is restored.
func waits(t *testing.T, name string, without func() (restore func()), reason string, texts ...string) {
	t.Helper()
	create(t, &v1alpha1.ReservationSource{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ReservationSourceSpec{URL: "/nowhere"},
	})
	shared.Operator.Kill()
	restore := without()
	started := make(chan error, 1)
	go func() { started <- shared.Operator.Start(t.Context()) }()
	eventually(t, func(c *assert.CollectT) {
		ready := ready(source(c, name).Status.Conditions)
		require.Equal(c, reason, ready.Reason)
		for _, text := range texts {
			require.Contains(c, ready.Message, text)
		}
	})
	restore()
	require.NoError(t, <-started, "it goes on by itself, as the same process")
	eventually(t, func(c *assert.CollectT) {
		require.Equal(c, v1alpha1.ReasonRepositoryNotFound, ready(source(c, name).Status.Conditions).Reason)
	})
}
