package node_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/node"
)

// Ten public bugs whose kind must not exist here; these are the ones of nodes.

// B1: an admin's cordon vanishes with a release (gpu-operator #304, system-upgrade-controller #341).
func TestLessons_B1_AnAdminsCordonOutlivesTheRelease(t *testing.T) {
	for name, when := range map[string]string{"before the lock": "before", "while it is held": "held", "during the release": "releasing"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.join()
			cordon := func(now string) {
				if now == when {
					w.edit(uncordoned) // if we had cordoned it
					w.reconcile()
					w.edit(cordoned)
					w.reconcile()
				}
			}
			w.grant(true)
			cordon("before")
			w.lock()
			cordon("held")
			p := w.run("training")
			w.grant(true, w.releasing())
			w.reconcile()
			cordon("releasing")
			w.end(p)
			w.reconcile()
			w.grant(true, w.freed())
			w.reconcile()
			n := w.get()
			require.NotContains(t, n.Labels, v1alpha1.LabelTenant)
			require.True(t, n.Spec.Unschedulable)
		})
	}
}

// B2: a pod that took the name of the one to evict is evicted in its place (kubernetes #64923, #138229).
func TestLessons_B2_AReplacedPodIsNotEvicted(t *testing.T) {
	w := newWorld(t, evicting)
	w.join()
	w.lock()
	old := w.run("worker-0")
	w.grant(true, w.releasing())
	w.reconcile()
	requireLeftAlone := w.replace(old, "eviction pod worker-0")
	require.Equal(t, node.Recheck, w.reconcile().RequeueAfter)
	requireLeftAlone()
	require.Empty(t, w.said().Reason)
	w.reconcile()
	require.True(t, w.said().Drained, "the release ends all the same")
}

// B7: a taint disappears because a list was replaced by an old one (kubernetes #128304, karmada #7346).
func TestLessons_B7_ForeignTaintsSurviveTwoWriters(t *testing.T) {
	const rounds = 500
	w := newWorld(t)
	w.join()
	var other sync.WaitGroup
	other.Go(func() {
		for i := range rounds {
			w.edit(tainted(corev1.Taint{Key: fmt.Sprintf("example.com/other-%d", i), Effect: corev1.TaintEffectNoSchedule}))
		}
	})
	conflicts := 0
	for i := range rounds {
		w.grant(true, w.held())
		if i%2 == 1 {
			w.grant(true, w.freed())
		}
		if w.reconcile().RequeueAfter == 20*time.Millisecond {
			conflicts++
		}
		for w.event() != "" { // the recorder holds a hundred
		}
	}
	other.Wait()
	require.NotZero(t, conflicts, "they never met")
	w.grant(true, w.freed())
	for w.reconcile().RequeueAfter > 0 {
	}
	require.Len(t, keys(w.get()), rounds)
}

// B9: a drain never ends, or ends where it must not (cluster-api #13508, karpenter #1776, kueue #13830). What each kind
// of hold-up comes to within the time that the Reservation grants.
func TestLessons_B9_EveryDrainEndsInTheDocumentedPhase(t *testing.T) {
	none := ptr.To[int32](0)
	cases := map[string]struct {
		hold func(w *world) *corev1.Pod
		// What is said once evictAfter has passed, and at the end, when deleteAfter has, too, and ten minutes more.
		wantEvicting, wantAtLast string
		wantEnding               bool // the pod is being deleted at the end
	}{
		"a budget of all of them": {func(w *world) *corev1.Pod {
			w.budget("all", "held", none)
			return w.run("held")
		}, v1alpha1.ReasonReleaseBlocked, v1alpha1.ReasonReleaseBlocked, true},
		"two budgets": {func(w *world) *corev1.Pod {
			w.budget("one", "held", none)
			w.budget("two", "held", none)
			return w.run("held")
		}, v1alpha1.ReasonBudgetConflict, v1alpha1.ReasonReleaseBlocked, true},
		"a grace period of ten days": {func(w *world) *corev1.Pod { return w.run("held", patience(864000)) }, "", v1alpha1.ReasonReleaseBlocked, true},
		"a finalizer": {func(w *world) *corev1.Pod {
			p := w.run("held", finalizer)
			w.Cleanup(func() { w.unhold(p) })
			return p
		}, "", v1alpha1.ReasonReleaseBlocked, true},
		"a kubelet that has stopped": {func(w *world) *corev1.Pod {
			n := w.get()
			ready(corev1.ConditionUnknown)(n)
			require.NoError(w, w.admin.Status().Update(w.Context(), n))
			return w.run("held")
		}, v1alpha1.ReasonNodeUnreachable, v1alpha1.ReasonNodeUnreachable, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, evictAfter(10*time.Minute), gracePeriod(time.Second), deleteAfter(20*time.Minute))
			w.join()
			w.lock()
			p := c.hold(w)
			w.grant(true, w.releasing())
			w.reconcile()
			w.clock.SetTime(w.clock.Now().Add(10 * time.Minute))
			w.reconcile()
			require.Equal(t, c.wantEvicting, w.said().Reason)
			w.clock.SetTime(w.clock.Now().Add(10 * time.Minute))
			w.reconcile()
			require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p))
			require.Equal(t, c.wantEnding, p.DeletionTimestamp != nil)
			if c.wantEnding {
				require.LessOrEqual(t, *p.DeletionGracePeriodSeconds, int64(1))
			}
			w.clock.SetTime(w.clock.Now().Add(10 * time.Minute))
			w.reconcile()
			require.Equal(t, c.wantAtLast, w.said().Reason)
			require.False(t, w.said().Drained)
			require.Equal(t, w.tenant, w.get().Labels[v1alpha1.LabelTenant], "whatever it comes to, the pod is still there")
		})
	}
}

// unhold takes a pod's finalizers off.
func (w *world) unhold(p *corev1.Pod) {
	err := w.admin.Patch(context.WithoutCancel(w.Context()), p, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	if !apierrors.IsNotFound(err) {
		require.NoError(w, err)
	}
}

// B10: pods die at a kubelet's restart because their label was taken off under them (kubernetes #99708, #123980).
func TestLessons_B10_TheLabelOutlivesTheLastPod(t *testing.T) {
	w := newWorld(t)
	w.join()
	w.lock()
	var pods []*corev1.Pod
	for i := range 5 {
		pods = append(pods, w.run(fmt.Sprintf("p%d", i)))
	}
	for i := range pods {
		// Whatever allocation says, and however often it changes its mind.
		for _, grant := range []func(){
			func() { w.grant(true, w.releasing()) }, func() { w.grant(true, w.freed()) }, func() { w.grant(true) },
		} {
			grant()
			w.reconcile()
			require.Equal(t, w.tenant, w.get().Labels[v1alpha1.LabelTenant], "%d pods are left", len(pods)-i)
		}
		w.end(pods[i])
	}
	w.grant(true, w.releasing())
	w.reconcile()
	w.grant(true, w.freed())
	w.reconcile()
	require.NotContains(t, w.get().Labels, v1alpha1.LabelTenant)
}
