package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/node"
)

// budget makes a disruption budget over the pods of an app. Its status, which a controller would write, allows so many
// disruptions; nil leaves it to be processed.
func (w *world) budget(name, app string, allowed *int32) {
	w.Helper()
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromString("100%")), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}
	require.NoError(w, w.admin.Create(w.Context(), b))
	if allowed != nil {
		b.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: b.Generation, DisruptionsAllowed: *allowed, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1,
		}
		require.NoError(w, w.admin.Status().Update(w.Context(), b))
	}
}

func TestCases_A24_ABudgetBlocksAndIsNamed(t *testing.T) {
	none := ptr.To[int32](0)
	cases := map[string]struct {
		budgets map[string]*int32
		reason  string
		want    []string
	}{
		"a budget that allows none":         {map[string]*int32{"keep-all": none}, v1alpha1.ReasonReleaseBlocked, []string{"The disruption budget keep-all needs 1 healthy pods"}},
		"a budget whose status is not made": {map[string]*int32{"keep-new": nil}, v1alpha1.ReasonReleaseBlocked, []string{"cannot be evicted"}},
		"two budgets":                       {map[string]*int32{"keep-all": none, "keep-too": none}, v1alpha1.ReasonBudgetConflict, []string{"remove all but one: keep-all, keep-too"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, evicting)
			w.join()
			w.lock()
			w.run("blocked")
			alone := w.run("free")
			for budget, allowed := range c.budgets {
				w.budget(budget, "blocked", allowed)
			}
			w.grant(true, w.releasing())
			w.reconcile()
			begin := time.Now()
			require.Equal(t, 5*time.Second, w.reconcile().RequeueAfter)
			require.Less(t, time.Since(begin), time.Minute, "a worker is not held up for ever")
			require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(alone), alone))
			require.NotNil(t, alone.DeletionTimestamp, "the others leave at once")
			require.Equal(t, c.reason, w.said().Reason)
			for _, text := range append(c.want, w.tenant+"/blocked", "node "+w.name) {
				require.Contains(t, w.said().Message, text)
			}
			require.Contains(t, w.said().WaitingFor, "waits for 2 pods to end")
			require.Contains(t, w.said().WaitingFor, "pod "+w.tenant+"/blocked: ")
			require.EqualValues(t, 2, w.said().PodsLeft)
			require.True(t, w.pods.nodes[w.name])

			w.clock.SetTime(w.clock.Now().Add(4 * time.Minute))
			require.InDelta(t, 30*time.Second, w.reconcile().RequeueAfter, float64(time.Second), "the pause grows")
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			require.Equal(t, time.Minute, w.reconcile().RequeueAfter, "to a minute")
		})
	}
}

// deleteAfter is the one way past a budget, and takes the pod that was seen.
func TestDeleteAfterDeletesWhatABudgetHolds(t *testing.T) {
	w := newWorld(t, evicting, deleteAfter(time.Hour), gracePeriod(7*time.Second))
	w.join()
	w.lock()
	p := w.run("held", patience(600))
	w.budget("keep-all", "held", ptr.To[int32](0))
	w.grant(true, w.releasing())
	w.reconcile()
	w.clock.SetTime(w.clock.Now().Add(59 * time.Minute))
	w.reconcile()
	require.Equal(t, []string{"patch node " + w.name, "eviction pod held"}, w.wrote())
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	require.Nil(t, p.DeletionTimestamp)

	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.reconcile()
	require.Equal(t, []string{"eviction pod held", "delete pod held"}, w.wrote())
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	require.EqualValues(t, 7, *p.DeletionGracePeriodSeconds)
	require.NotContains(t, w.said().Message, "cannot be evicted")
	require.Equal(t, w.tenant, w.get().Labels[v1alpha1.LabelTenant], "until it has ended")
}

func TestDeleteAfterLeavesAPodOfTheSameNameAlone(t *testing.T) {
	w := newWorld(t, deleteAfter(time.Second))
	w.join()
	w.lock()
	old := w.run("held")
	w.budget("keep-all", "held", ptr.To[int32](0))
	w.grant(true, w.releasing())
	w.reconcile()
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	requireLeftAlone := w.replace(old, "delete pod held")
	w.reconcile()
	requireLeftAlone()
}

// Beside a dead node a healthy one, whose pod may take a day to end.
func TestCases_A26_ADeadNodeHoldsUpNoOther(t *testing.T) {
	const day = 86400
	w := newWorld(t)
	dead, healthy := w.name, w.tenant+"-healthy"
	w.join()
	w.lock()
	lost := w.run("lost", patience(30))
	w.turnTo(healthy)
	w.join()
	w.lock()
	patient := w.run("patient", patience(day))
	w.grant(true, w.releasing())
	w.reconcile()
	require.NoError(t, w.admin.Delete(t.Context(), patient))
	w.turnTo(dead)
	w.reconcile()
	n := w.get()
	ready(corev1.ConditionUnknown)(n)
	require.NoError(t, w.admin.Status().Update(t.Context(), n))
	require.NoError(t, w.admin.Delete(t.Context(), lost))
	w.clock.SetTime(w.clock.Now().Add(20 * time.Minute))
	w.wrote()

	w.reconcile()
	require.Equal(t, v1alpha1.ReasonNodeUnreachable, w.said().Reason)
	require.False(t, w.said().Drained)
	w.turnTo(healthy)
	require.Equal(t, node.Recheck, w.reconcile().RequeueAfter)
	require.Empty(t, w.said().Reason, "it is in its own time")
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(patient), patient))
	until := patient.DeletionTimestamp.UTC().Format(time.RFC3339)
	require.Equal(t, "waits for 1 pod to end: "+w.tenant+"/patient; the last grace period ends at "+until, w.said().WaitingFor)
	require.Equal(t, w.tenant, w.get().Labels[v1alpha1.LabelTenant], "it keeps its lock until the pod is gone")
	w.end(patient)
	w.reconcile()
	require.True(t, w.said().Drained)
	w.turnTo(dead)
	w.reconcile()
	require.False(t, w.said().Drained)
	require.Empty(t, w.wrote(), "nothing was evicted or deleted on either")
}

func TestCases_A26_ANodeThatDoesNotAnswerIsNotDrained(t *testing.T) {
	w := newWorld(t, evicting, deleteAfter(time.Second))
	w.join()
	w.lock()
	p := w.run("training")
	status := func(s corev1.ConditionStatus) {
		n := w.get()
		ready(s)(n)
		require.NoError(t, w.admin.Status().Update(t.Context(), n))
	}
	w.grant(true, w.releasing())
	w.reconcile()
	w.wrote()
	status(corev1.ConditionUnknown)
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.reconcile()
	require.Empty(t, w.wrote(), "nothing is evicted or deleted there")
	require.Equal(t, v1alpha1.ReasonNodeUnreachable, w.said().Reason)
	w.end(p) // by force
	w.reconcile()
	require.False(t, w.said().Drained, "its containers may still run")
	for range 3 {
		w.event()
	}
	require.Contains(t, w.event()+w.event()+w.event(), "Warning NodeUnreachable Node "+w.name)
	require.Empty(t, w.event(), "it is said once")
	status(corev1.ConditionTrue)
	w.reconcile()
	require.True(t, w.said().Drained)
}
