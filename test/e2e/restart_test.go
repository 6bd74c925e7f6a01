package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/cluster"
)

func TestKilledInTheMiddleOfAReleaseLosesNothing(t *testing.T) {
	name := ownNodes(t, 1)[0]
	r := tenant(t, "killed", name)
	p := pod("killed", "training", name)
	running(t, p)
	edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = []string{} })
	eventually(t, func(c *assert.CollectT) {
		require.Contains(c, node(c, name).Annotations, v1alpha1.AnnotationReleasingSince)
	})
	before := node(t, name)
	writes := patchesOf(t, name)

	shared.KillOperator()
	require.NoError(t, shared.StartOperator(t.Context()))
	eventually(t, func(c *assert.CollectT) {
		status := reservation(c, r.Name).Status
		require.Len(c, status.Releasing, 1)
		require.Contains(c, status.Releasing[0].WaitingFor, "killed/training")
	})
	require.Equal(t, before.Annotations, node(t, name).Annotations, "the release goes on where it was")
	require.Equal(t, writes, patchesOf(t, name), "no write was repeated")

	shared.KillOperator()
	finish(t, p)
	require.NoError(t, shared.StartOperator(t.Context()))
	eventually(t, func(c *assert.CollectT) { requireFree(c, name) })
	require.False(t, node(t, name).Spec.Unschedulable)
	require.Equal(t, writes+1, patchesOf(t, name))
}

func TestAtRestNothingIsWritten(t *testing.T) {
	nodes := ownNodes(t, 4)
	t.Cleanup(func() { deleteReservation(t, "quiet-reservation") })
	r := repository(t, map[string]string{"quiet.yaml": reservationYAML("quiet", nodes...)})
	follow(t, "quiet", r.URL)
	eventually(t, func(c *assert.CollectT) {
		for _, n := range nodes {
			requireLocked(c, n, "quiet", "quiet-reservation")
		}
		require.NotEmpty(c, source(c, "quiet").Status.History)
		require.NotNil(c, source(c, "quiet").Status.History[0].ConvergedAt)
	})
	for _, n := range nodes {
		require.Equal(t, 1, patchesOf(t, n), "one patch locks %s", n)
	}
	settle(t)
	before, err := shared.Writes()
	require.NoError(t, err)
	since := func() []cluster.Write {
		now, err := shared.Writes()
		require.NoError(t, err)
		return now[len(before):]
	}
	// Several intervals of the source go by, and a restart, which lists everything anew.
	require.Never(t, func() bool { return len(since()) > 0 }, 3*time.Second, 500*time.Millisecond, "a write at rest")
	require.Empty(t, since())
	require.NoError(t, shared.StopOperator(t.Context()))
	require.NoError(t, shared.StartOperator(t.Context()))
	time.Sleep(3 * time.Second) // for what it might do; what must not happen cannot be awaited
	require.Empty(t, since(), "after a restart")
}

// settle waits until the operator has written nothing for a second.
func settle(t *testing.T) {
	t.Helper()
	last, since := allWrites(t), time.Now()
	eventually(t, func(c *assert.CollectT) {
		if now := allWrites(c); now != last {
			last, since = now, time.Now()
		}
		require.Greater(c, time.Since(since), time.Second)
	})
}

func allWrites(t require.TestingT) int { return count(t, func(cluster.Write) bool { return true }) }

func TestStopsCleanly(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, shared.StopOperator(ctx))
	require.NoError(t, shared.StartOperator(t.Context()))
}
