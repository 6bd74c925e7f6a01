package commit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// At rest a source costs one look per interval: no fetch, no write; nor does a rejected commit, nor a restart.
func TestCases_A28_NothingIsWrittenAtRest(t *testing.T) {
	for name, file := range map[string]string{
		"applied":  tenantYAML("rest", "rest-1"),
		"rejected": reservationYAML("rest") + "  unknown: field\n",
	} {
		t.Run(name, func(t *testing.T) {
			k := start(t)
			settling(t, nil)
			r := repository(t, map[string]string{"a.yaml": file})
			s := follow(t, r.URL, nil)
			eventually(t, func(c *assert.CollectT) {
				require.Contains(c, []string{v1alpha1.ReasonSucceeded, v1alpha1.ReasonCommitRejected}, ready(latest(c, s)).Reason)
			})
			k.written()
			before, looks, loads := latest(t, s), k.looks.Load(), k.loads.Load()
			eventually(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, k.looks.Load(), looks+3) })
			require.Empty(t, k.written())
			require.Equal(t, loads, k.loads.Load())
			require.Equal(t, before, latest(t, s))

			k.stop()
			again := start(t)
			eventually(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, again.looks.Load(), int64(3)) })
			require.Equal(t, int64(1), again.loads.Load(), "one full pass after a restart")
			require.Empty(t, again.written())
			require.Equal(t, before, latest(t, s))
			require.Empty(t, again.events.Events)
		})
	}
}

// edit changes an object by hand, whoever else writes it meanwhile.
func edit(t *testing.T, o client.Object, manager string, change func()) {
	t.Helper()
	patch := client.MergeFrom(o.DeepCopyObject().(client.Object))
	change()
	require.NoError(t, admin.Patch(t.Context(), o, patch, client.FieldOwner(manager)))
}

func TestDriftComesBackAtOnce(t *testing.T) {
	k := start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": tenantYAML("drift", "drift-1", "drift-2")})
	s := follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Spec.Interval.Duration = time.Hour })
	s = awaitReady(t, s, r.head())
	history := s.Status.History
	live := &v1alpha1.Reservation{}
	require.True(t, get(t, live, "drift"))
	uid := live.UID

	for name, change := range map[string]func(){
		"deleted": func() { require.NoError(t, admin.Delete(t.Context(), live.DeepCopy())) },
		"a node taken away": func() {
			edit(t, live, "kubectl-edit", func() { live.Spec.ReservedNodes = live.Spec.ReservedNodes[:1] })
		},
		"the source's label taken off": func() {
			edit(t, live, "kubectl-label", func() { delete(live.Labels, v1alpha1.LabelSource) })
		},
		"its binding deleted": func() {
			require.NoError(t, admin.Delete(t.Context(), &v1alpha1.ReservationBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "drift", Name: "binding"}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.True(t, get(t, live, "drift"))
			change()
			eventually(t, func(c *assert.CollectT) {
				require.True(c, get(c, live, "drift"))
				require.Equal(c, []string{"drift-1", "drift-2"}, live.Spec.ReservedNodes)
				require.Equal(c, s.Name, live.Labels[v1alpha1.LabelSource])
				require.True(c, get(c, &v1alpha1.ReservationBinding{}, "drift", "binding"))
			})
			awaitReady(t, s, r.head())
		})
	}
	require.NotEqual(t, uid, live.UID)
	require.Equal(t, history, latest(t, s).Status.History, "what the commit did stays on record")
	require.Contains(t, k.emitted(), "Normal CommitApplied Reservation drift was changed by somebody else and is as "+r.head()+" says again")
}

// Who took a node meanwhile does not keep the commit from being repaired: it is told who holds it.
func TestDriftWhoseNodeAnotherTook(t *testing.T) {
	start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("robbed", "robbed-1", "robbed-2")})
	s := awaitReady(t, follow(t, r.URL, nil), r.head())
	rival := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "rival"}, Spec: v1alpha1.ReservationSpec{Tenant: "rival", ReservedNodes: []string{"robbed-2"}}}
	require.NoError(t, admin.Create(t.Context(), rival))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), rival) })

	live := &v1alpha1.Reservation{}
	for name, change := range map[string]func(){
		"deleted": func() { require.NoError(t, admin.Delete(t.Context(), live.DeepCopy())) },
		"edited out": func() {
			edit(t, live, "kubectl-edit", func() { live.Spec.ReservedNodes = live.Spec.ReservedNodes[:1] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.True(t, get(t, live, "robbed"))
			changed := live.ResourceVersion
			change()
			eventually(t, func(c *assert.CollectT) {
				require.True(c, get(c, live, "robbed"))
				require.NotEqual(c, changed, live.ResourceVersion)
				require.Equal(c, []string{"robbed-1", "robbed-2"}, live.Spec.ReservedNodes)
			})
			require.Equal(t, v1alpha1.OutcomeApplied, awaitReady(t, s, r.head()).Status.History[0].Outcome)
		})
	}
}

// An operator that was killed between writing an object and taking it over from who made it by hand does that first: what
// the next commit drops goes, and what it changes is no conflict.
func TestATakeOverThatWasInterruptedIsFinished(t *testing.T) {
	k := start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("shared", "shared-1", "shared-2") + "  taintEffect: NoSchedule\n"})
	s := awaitReady(t, follow(t, r.URL, nil), r.head())
	k.stop()
	live := &v1alpha1.Reservation{}
	require.True(t, get(t, live, "shared"))
	for _, e := range live.ManagedFields {
		if e.Manager == v1alpha1.FieldManagerSource {
			e.Manager, e.Operation = "kubectl-client-side-apply", metav1.ManagedFieldsOperationUpdate
			live.ManagedFields = append(live.ManagedFields, e)
			break
		}
	}
	require.NoError(t, admin.Update(t.Context(), live))
	r.commit("less", map[string]string{"a.yaml": reservationYAML("shared", "shared-1") + "  taintEffect: NoExecute\n"})
	start(t)
	awaitReady(t, s, r.head())
	require.True(t, get(t, live, "shared"))
	require.Equal(t, []string{"shared-1"}, live.Spec.ReservedNodes)
}

// Another path of the same commit is checked as what it is: new. It is refused again when it is looked at again.
func TestAnotherPathWhoseNodeAnotherHas(t *testing.T) {
	k := start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a/a.yaml": reservationYAML("pathed", "pathed-1"), "b/b.yaml": reservationYAML("moved", "moved-1")})
	rival := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "rival-path"}, Spec: v1alpha1.ReservationSpec{Tenant: "rival", ReservedNodes: []string{"moved-1"}}}
	require.NoError(t, admin.Create(t.Context(), rival))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), rival) })
	s := awaitReady(t, follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Spec.Path = "a" }), r.head())

	patch := client.MergeFrom(s.DeepCopy())
	s.Spec.Path = "b"
	require.NoError(t, admin.Patch(t.Context(), s, patch))
	s = awaitReason(t, s, v1alpha1.ReasonCommitRejected, "also reserved by the live Reservation rival-path")
	loads := k.loads.Load()
	k.later.Store(int64(time.Minute))
	eventually(t, func(c *assert.CollectT) { require.Greater(c, k.loads.Load(), loads) })
	looks := k.looks.Load() // the next one begins when the pass that loaded has ended
	eventually(t, func(c *assert.CollectT) { require.Greater(c, k.looks.Load(), looks) })
	awaitReason(t, s, v1alpha1.ReasonCommitRejected, "also reserved by the live Reservation rival-path")
	require.False(t, get(t, &v1alpha1.Reservation{}, "moved"))
	require.True(t, get(t, &v1alpha1.Reservation{}, "pathed"))
}

// Namespaces, quotas and limits are not watched: what somebody did to them is put right by a full pass every ten
// minutes, which writes nothing where nothing differs.
func TestDriftOfWhatIsNotWatched(t *testing.T) {
	k := start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": tenantYAML("unwatched", "unwatched-1")})
	s := follow(t, r.URL, nil)
	s = awaitReady(t, s, r.head())
	k.emitted()
	quota := &corev1.ResourceQuota{}
	for name, tc := range map[string]struct {
		change     func()
		wantWrites []string
		wantEvents []string
	}{
		"nobody did anything": {change: func() {}},
		"a quota was deleted": {
			change:     func() { require.NoError(t, admin.Delete(t.Context(), quota.DeepCopy())) },
			wantWrites: []string{"apply ResourceQuota quota"},
			wantEvents: []string{"Normal CommitApplied ResourceQuota unwatched/quota was changed by somebody else and is as " + r.head() + " says again"},
		},
		"a namespace lost its label": {
			change: func() {
				ns := &corev1.Namespace{}
				require.True(t, get(t, ns, "unwatched"))
				delete(ns.Labels, v1alpha1.LabelSource)
				require.NoError(t, admin.Update(t.Context(), ns))
			},
			wantWrites: []string{"apply Namespace unwatched"},
			wantEvents: []string{"Normal CommitApplied Namespace unwatched was changed by somebody else and is as " + r.head() + " says again"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.True(t, get(t, quota, "unwatched", "quota"))
			before := latest(t, s)
			tc.change()
			k.written()
			loads := k.loads.Load()
			k.later.Add(int64(resync))
			// The pass is over when the repository is looked at the next time.
			var looks int64
			eventually(t, func(c *assert.CollectT) {
				require.Equal(c, loads+1, k.loads.Load())
				looks = k.looks.Load()
			})
			eventually(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, k.looks.Load(), looks+2) })
			require.Equal(t, tc.wantWrites, k.written())
			require.Equal(t, tc.wantEvents, k.emitted())
			require.True(t, get(t, quota, "unwatched", "quota"))
			require.Equal(t, before, latest(t, s))
			require.Equal(t, loads+1, k.loads.Load(), "one pass")
		})
	}
}

func TestWhatAnotherManagerHoldsIsReported(t *testing.T) {
	start(t)
	settling(t, nil)
	text := reservationYAML("held", "held-1") + "  taintEffect: NoSchedule\n"
	r := repository(t, map[string]string{"a.yaml": text})
	s := follow(t, r.URL, nil)
	awaitReady(t, s, r.head())
	edit := func(change func(*v1alpha1.Reservation)) {
		live := &v1alpha1.Reservation{}
		require.True(t, get(t, live, "held"))
		change(live)
		require.NoError(t, admin.Update(t.Context(), live, client.FieldOwner("kubectl-edit")))
	}
	// A node more: the commit cannot take it away without force.
	edit(func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = append(r.Spec.ReservedNodes, "held-2") })
	eventually(t, func(c *assert.CollectT) {
		s := latest(c, s)
		require.Equal(c, v1alpha1.ReasonSucceeded, ready(s).Reason)
		require.Contains(c, ready(s).Message, `a.yaml:1: Reservation held: spec.reservedNodes[="held-2"]: is not in the commit: the field manager "kubectl-edit" set it`)
	})
	// Another value: nor this.
	edit(func(r *v1alpha1.Reservation) { r.Spec.TaintEffect = corev1.TaintEffectNoExecute })
	s = awaitReason(t, s, v1alpha1.ReasonApplyFailed, "a.yaml:1: Reservation held: spec.taintEffect", `"kubectl-edit"`)
	require.Equal(t, v1alpha1.OutcomeApplied, s.Status.History[0].Outcome, "the commit was applied")
	// A commit that says the same agrees.
	_, revision := r.commit("Agree", map[string]string{"a.yaml": reservationYAML("held", "held-1", "held-2") + "  taintEffect: NoExecute\n"})
	require.Equal(t, "applied "+revision+": 1 reservation, 2 nodes locked", ready(awaitReady(t, s, revision)).Message)
}

func TestRequestedReconcileComesAtOnce(t *testing.T) {
	k := start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("asked", "asked-1")})
	s := follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Spec.Interval.Duration = time.Hour })
	awaitReady(t, s, r.head())
	loads := k.loads.Load()
	_, revision := r.commit("News", map[string]string{"a.yaml": reservationYAML("asked", "asked-1", "asked-2")})
	before := latest(t, s)
	asked := before.DeepCopy()
	asked.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequest: "now"}
	require.NoError(t, admin.Patch(t.Context(), asked, client.MergeFrom(before)))
	s = awaitReady(t, s, revision)
	require.Equal(t, "now", s.Status.LastHandledReconcileAt)
	require.Equal(t, loads+1, k.loads.Load())
}

func TestSuspendedSourceIsLeftAlone(t *testing.T) {
	k := start(t)
	release := draining(t, "suspended-1", 1)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("suspended", "suspended-1")})
	s := follow(t, r.URL, nil)
	first := r.head()
	before := awaitReason(t, s, v1alpha1.ReasonConverging, first)
	suspend := func(on bool) {
		change(t, s, func(s *v1alpha1.ReservationSource) { s.Spec.Suspend = on })
	}
	k.emitted()
	suspend(true)
	var noted []string
	eventually(t, func(c *assert.CollectT) {
		noted = append(noted, k.emitted()...)
		require.NotEmpty(c, noted)
	})
	looks := k.looks.Load()
	_, second := r.commit("Nothing left but a node", map[string]string{"a.yaml": reservationYAML("suspended", "suspended-2")})
	release()
	eventually(t, func(c *assert.CollectT) {
		require.NotNil(c, latest(c, s).Status.History[0].ConvergedAt, "that is still noted")
	})
	require.Equal(t, before.Status.Conditions, latest(t, s).Status.Conditions, "they stay as they were")
	require.NoError(t, admin.Delete(t.Context(), &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "suspended"}}))
	time.Sleep(time.Second)
	require.Equal(t, looks, k.looks.Load())
	require.False(t, get(t, &v1alpha1.Reservation{}, "suspended"))
	require.Equal(t, []string{"Normal Suspended suspended: nothing is fetched, applied or pruned until spec.suspend is taken back; " + first + " stays applied"},
		append(noted, k.emitted()...), "it is said once")
	suspend(false)
	awaitReady(t, s, second)
}

// A source that was suspended from the start has nothing else to say.
func TestSuspendedFromTheStart(t *testing.T) {
	k := start(t)
	s := follow(t, "/nowhere", func(s *v1alpha1.ReservationSource) { s.Spec.Suspend = true })
	s = awaitReason(t, s, v1alpha1.ReasonSuspended, "spec.suspend")
	require.Equal(t, metav1.ConditionUnknown, ready(s).Status)
	require.Len(t, s.Status.Conditions, 1)
	require.Zero(t, k.looks.Load())
}
