package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func TestOverlapIsRefusedByTheWebhook(t *testing.T) {
	name := ownNodes(t, 1)[0]
	tenant(t, "first", name)
	second := filepath.Join(t.TempDir(), "second.yaml")
	require.NoError(t, os.WriteFile(second, []byte(reservationYAML("second", name)), 0o600))
	_, err := shared.Kubectl(t.Context(), "apply", "-f", second)
	require.ErrorContains(t, err, "spec.reservedNodes[0]")
	require.ErrorContains(t, err, name+" is already in Reservation first-reservation (tenant first); remove it there first")
	_, err = shared.Kubectl(t.Context(), "get", "reservation", "second-reservation")
	require.ErrorContains(t, err, "NotFound")
}

func TestOverlapWithTheWebhookDownKeepsTheFirstHolder(t *testing.T) {
	nodes := ownNodes(t, 2)
	first := tenant(t, "holder", nodes[0])
	shared.Operator.Kill()
	restarted := false
	defer func() {
		if !restarted {
			require.NoError(t, shared.Operator.Start(t.Context()))
		}
	}()
	late := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "late-reservation"},
		Spec:       v1alpha1.ReservationSpec{Tenant: "late", ReservedNodes: nodes},
	}
	create(t, late)
	require.NoError(t, shared.Operator.Start(t.Context()))
	restarted = true
	eventually(t, func(c *assert.CollectT) {
		requireLocked(c, nodes[1], "late", late.Name)
		requireLocked(c, nodes[0], "holder", first.Name)
		r := reservation(c, late.Name)
		require.Equal(c, []v1alpha1.PendingNode{{Name: nodes[0], Reason: v1alpha1.PendingHeldBy, By: first.Name}}, r.Status.Pending)
		ready := ready(r.Status.Conditions)
		require.Equal(c, metav1.ConditionFalse, ready.Status)
		require.Contains(c, ready.Message, nodes[0])
		require.Contains(c, ready.Message, first.Name)
	})
}

func TestOverlapInACommitAppliesNothing(t *testing.T) {
	nodes := ownNodes(t, 2)
	t.Cleanup(func() { deleteReservation(t, "left-reservation"); deleteReservation(t, "right-reservation") })
	r := repository(t, map[string]string{"left.yaml": reservationYAML("left", nodes[0])})
	follow(t, "overlap", r.URL)
	eventually(t, func(c *assert.CollectT) { requireLocked(c, nodes[0], "left", "left-reservation") })

	commit(t, r, "Take the same node twice", map[string]string{
		"left.yaml":  reservationYAML("left", nodes...),
		"right.yaml": reservationYAML("right", nodes[1]),
	})
	eventually(t, func(c *assert.CollectT) {
		ready := ready(source(c, "overlap").Status.Conditions)
		require.Equal(c, v1alpha1.ReasonCommitRejected, ready.Reason)
		require.Contains(c, ready.Message, nodes[1])
	})
	requireFree(t, nodes[1])
	require.Equal(t, nodes[:1], reservation(t, "left-reservation").Spec.ReservedNodes)
}

func ready(conditions []metav1.Condition) metav1.Condition {
	for _, c := range conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c
		}
	}
	return metav1.Condition{}
}
