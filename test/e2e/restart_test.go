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
	settle(t)
	before := node(t, name)

	shared.Operator.Kill()
	since := writesFromNow(t)
	require.NoError(t, shared.Operator.Start(t.Context()))
	eventually(t, func(c *assert.CollectT) {
		status := reservation(c, r.Name).Status
		require.Len(c, status.Releasing, 1)
		require.Contains(c, status.Releasing[0].WaitingFor, "killed/training")
	})
	settle(t)
	require.Equal(t, before.Annotations, node(t, name).Annotations, "the release goes on where it was")
	require.Empty(t, since(), "no write was repeated")

	shared.Operator.Kill()
	finish(t, p)
	require.NoError(t, shared.Operator.Start(t.Context()))
	eventually(t, func(c *assert.CollectT) {
		requireFree(c, name)
		require.Empty(c, reservation(c, r.Name).Status.Nodes)
	})
	require.False(t, node(t, name).Spec.Unschedulable)
	settle(t)
	writes := map[string]int{}
	for _, w := range since() {
		writes[w.Verb+" "+w.Resource]++
	}
	require.Equal(t, 1, writes["patch nodes"], "released in one patch")
	require.Equal(t, 2, writes["update configmaps"], "the index says freed, and then nothing")
	require.Equal(t, 3, writes["create events"], "on the node, its Reservation and the binding")
	require.LessOrEqual(t, writes["patch reservations/status"], 2, "at most once for each change of the index")
	for _, expected := range []string{"patch nodes", "update configmaps", "create events", "patch reservations/status"} {
		delete(writes, expected)
	}
	require.Empty(t, writes)
}

// writesFromNow returns a function that returns the operator's writes, of every kind, since this call.
func writesFromNow(t *testing.T) func() []cluster.Write {
	t.Helper()
	before := allWrites(t)
	return func() []cluster.Write {
		now, err := shared.Writes()
		require.NoError(t, err)
		return now[before:]
	}
}

func TestAtRestNothingIsWritten(t *testing.T) {
	nodes := ownNodes(t, 4)
	t.Cleanup(func() { deleteReservation(t, "quiet-reservation") })
	namespace(t, "quiet")
	r := repository(t, map[string]string{"quiet.yaml": reservationYAML("quiet", nodes...), "binding.yaml": bindingYAML("quiet")})
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
	requireBound(t, "quiet")
	require.Contains(t, nodes, running(t, pod("quiet", "training", "")), "as at rest as a cluster in use can be")
	settle(t)
	since := writesFromNow(t)
	// A restart lists everything anew; then two resyncs go by, and many intervals of the source.
	const resync = 2 * time.Second
	require.NoError(t, shared.Operator.Stop(t.Context()))
	require.NoError(t, shared.Operator.Start(t.Context(), "--sync-period", resync.String()))
	t.Cleanup(func() {
		require.NoError(t, shared.Operator.Stop(context.Background()))
		require.NoError(t, shared.Operator.Start(context.Background()))
	})
	require.Never(t, func() bool { return len(since()) > 0 }, 3*resync, 500*time.Millisecond, "a write at rest")
	require.Empty(t, since())
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
	require.NoError(t, shared.Operator.Stop(ctx))
	require.NoError(t, shared.Operator.Start(t.Context()))
}
