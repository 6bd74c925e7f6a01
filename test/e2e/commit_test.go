package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func TestCommitAddsAndRevertBringsBackANodeThatIsStillDraining(t *testing.T) {
	nodes := ownNodes(t, 2)
	const file = "tenants/coder/reservation.yaml"
	t.Cleanup(func() { deleteReservation(t, "coder-reservation") })
	namespace(t, "coder")
	r := repository(t, map[string]string{
		file: reservationYAML("coder", nodes[0]), "tenants/coder/binding.yaml": bindingYAML("coder"),
	})
	follow(t, "coder", r.URL)
	eventually(t, func(c *assert.CollectT) {
		requireLocked(c, nodes[0], "coder", "coder-reservation")
		requireBound(c, "coder")
	})

	added := commit(t, r, "Add a node", map[string]string{file: reservationYAML("coder", nodes...)})
	eventually(t, func(c *assert.CollectT) {
		requireLocked(c, nodes[1], "coder", "coder-reservation")
		require.Contains(c, indexData(c)["nodes"], "|"+nodes[1]+" coder|")
		require.Equal(c, "main@sha1:"+added, reservation(c, "coder-reservation").Status.Revision)
	})

	p := pod("coder", "training", nodes[1])
	running(t, p)
	removed := commit(t, r, "Give a node back", map[string]string{file: reservationYAML("coder", nodes[0])})
	eventually(t, func(c *assert.CollectT) {
		require.True(c, node(c, nodes[1]).Spec.Unschedulable)
		s := source(c, "coder")
		require.Equal(c, "main@sha1:"+removed, s.Status.LastAppliedRevision)
		require.Nil(c, s.Status.History[0].ConvergedAt)
		require.Contains(c, ready(s.Status.Conditions).Message, nodes[1])
	})

	reverting, err := r.Revert(removed)
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) {
		requireLocked(c, nodes[1], "coder", "coder-reservation")
		require.False(c, node(c, nodes[1]).Spec.Unschedulable, "uncordoned")
		s := source(c, "coder")
		require.Len(c, s.Status.History, 4)
		newest := s.Status.History[0]
		require.Equal(c, "main@sha1:"+reverting, newest.Revision)
		require.Equal(c, removed, newest.Reverts)
		require.Equal(c, `Revert "Give a node back"`, newest.Subject)
		require.Equal(c, "Platform Team", newest.Author)
		require.Equal(c, v1alpha1.OutcomeApplied, newest.Outcome)
		require.NotNil(c, newest.ConvergedAt)
	})
	finish(t, p)
}

func TestCommitWithOneBadObjectChangesNothing(t *testing.T) {
	nodes := ownNodes(t, 2)
	t.Cleanup(func() { deleteReservation(t, "whole-reservation"); deleteReservation(t, "other-reservation") })
	r := repository(t, map[string]string{"whole.yaml": reservationYAML("whole", nodes[0])})
	follow(t, "whole", r.URL)
	eventually(t, func(c *assert.CollectT) { requireLocked(c, nodes[0], "whole", "whole-reservation") })

	commit(t, r, "One good change and one bad object", map[string]string{
		"whole.yaml": reservationYAML("whole", nodes...),
		"other.yaml": reservationYAML("other") + "  taintEffect: NoSuchEffect\n",
	})
	eventually(t, func(c *assert.CollectT) {
		s := source(c, "whole")
		require.Equal(c, v1alpha1.OutcomeRejected, s.Status.History[0].Outcome)
		for _, part := range []string{"other.yaml", "Reservation", "other-reservation", "spec.taintEffect"} {
			require.Contains(c, ready(s.Status.Conditions).Message, part)
			require.Contains(c, s.Status.History[0].Message, part)
		}
	})
	require.Equal(t, nodes[:1], reservation(t, "whole-reservation").Spec.ReservedNodes)
	requireFree(t, nodes[1])

	commit(t, r, "Without the bad object", map[string]string{"other.yaml": ""})
	eventually(t, func(c *assert.CollectT) {
		requireLocked(c, nodes[1], "whole", "whole-reservation")
		require.Equal(c, v1alpha1.OutcomeApplied, source(c, "whole").Status.History[0].Outcome)
	})
}

func TestRemovedReservationIsPrunedThroughTheDrain(t *testing.T) {
	nodes := ownNodes(t, 2)
	t.Cleanup(func() { deleteReservation(t, "keeps-reservation"); deleteReservation(t, "goes-reservation") })
	namespace(t, "goes")
	r := repository(t, map[string]string{
		"keeps.yaml": reservationYAML("keeps", nodes[0]), "goes.yaml": reservationYAML("goes", nodes[1]),
		"binding.yaml": bindingYAML("goes"),
	})
	follow(t, "pruned", r.URL)
	eventually(t, func(c *assert.CollectT) {
		requireLocked(c, nodes[1], "goes", "goes-reservation")
		requireBound(c, "goes")
	})
	p := pod("goes", "training", nodes[1])
	running(t, p)
	commit(t, r, "Without goes", map[string]string{"goes.yaml": "", "binding.yaml": ""})
	eventually(t, func(c *assert.CollectT) { require.True(c, node(c, nodes[1]).Spec.Unschedulable) })
	require.Equal(t, "goes", node(t, nodes[1]).Labels[v1alpha1.LabelTenant])
	finish(t, p)
	eventually(t, func(c *assert.CollectT) { requireFree(c, nodes[1]) })
	requireLocked(t, nodes[0], "keeps", "keeps-reservation")
}
