package allocate_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// is reports whether a condition of a Reservation has a status and a reason.
func is(t assert.TestingT, r *v1alpha1.Reservation, condition string, status metav1.ConditionStatus, reason string) {
	c := conditions.Get(r, condition)
	if assert.NotNil(t, c, condition) {
		assert.Equal(t, status, c.Status, "%s: %s", condition, c.Message)
		assert.Equal(t, reason, c.Reason, "%s: %s", condition, c.Message)
		assert.Equal(t, r.Generation, c.ObservedGeneration, condition)
	}
}

func TestTheStatusSaysWhatIsLocked(t *testing.T) {
	c := newCluster(t)
	c.join("n1", "n2")
	c.start()
	r := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "foo", Annotations: map[string]string{v1alpha1.AnnotationRevision: "main@sha1:abc"}},
		Spec:       v1alpha1.ReservationSpec{Tenant: "foo", ReservedNodes: []string{"n2", "n1"}, Namespaces: []string{"foo-b", "foo-a"}},
	}
	require.NoError(t, c.admin.Create(t.Context(), r))
	eventually(t, func(t *assert.CollectT) {
		r := c.reservation("foo")
		is(t, r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
		is(t, r, v1alpha1.ConditionFenceIntact, metav1.ConditionTrue, v1alpha1.ReasonFenceProven)
		is(t, r, v1alpha1.ConditionExclusive, metav1.ConditionTrue, v1alpha1.ReasonExclusive)
		assert.Len(t, r.Status.Conditions, 3)
		assert.EqualValues(t, 2, r.Status.Reserved)
		assert.Equal(t, []string{"n1", "n2"}, r.Status.Nodes)
		assert.Equal(t, []string{"foo-a", "foo-b"}, r.Status.Namespaces)
		assert.Equal(t, "main@sha1:abc", r.Status.Revision)
		assert.Equal(t, r.Generation, r.Status.ObservedGeneration)
		assert.Equal(t, []string{v1alpha1.FinalizerRelease}, r.Finalizers)
	})
	c.settle()

	t.Run("a new revision alone is said too", func(t *testing.T) {
		c.change("foo", func(r *v1alpha1.Reservation) { r.Annotations[v1alpha1.AnnotationRevision] = "main@sha1:def" })
		eventually(t, func(t *assert.CollectT) { assert.Equal(t, "main@sha1:def", c.reservation("foo").Status.Revision) })
	})
	t.Run("a node more is pending until it comes", func(t *testing.T) {
		c.rename("foo", "n1", "n2", "n3")
		eventually(t, func(t *assert.CollectT) {
			r := c.reservation("foo")
			assert.Equal(t, []v1alpha1.PendingNode{{Name: "n3", Reason: v1alpha1.PendingNotFound}}, r.Status.Pending)
			is(t, r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNodesPending)
			is(t, r, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonProgressing)
		})
		c.join("n3")
		eventually(t, func(t *assert.CollectT) {
			r := c.reservation("foo")
			is(t, r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
			assert.Nil(t, conditions.Get(r, v1alpha1.ConditionReconciling))
			assert.EqualValues(t, 3, r.Status.Reserved)
			assert.Empty(t, r.Status.Pending)
		})
	})
	t.Run("a release is followed", func(t *testing.T) {
		p := c.run(c.makeNamespaceNamed("foo-a"), "training", "n3")
		c.rename("foo", "n1", "n2")
		eventually(t, func(t *assert.CollectT) {
			r := c.reservation("foo")
			is(t, r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNodesReleasing)
			if assert.Len(t, r.Status.Releasing, 1) {
				assert.Equal(t, "n3", r.Status.Releasing[0].Name)
				assert.NotNil(t, r.Status.Releasing[0].Since)
				assert.EqualValues(t, 1, r.Status.Releasing[0].PodsLeft)
				assert.Equal(t, "waits for 1 pod to end: foo-a/training", r.Status.Releasing[0].WaitingFor)
			}
			assert.EqualValues(t, 3, r.Status.Reserved)
			assert.Equal(t, []string{"n1", "n2", "n3"}, r.Status.Nodes)
		})
		c.end(p)
		eventually(t, func(t *assert.CollectT) {
			r := c.reservation("foo")
			is(t, r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
			assert.EqualValues(t, 2, r.Status.Reserved)
			assert.Empty(t, r.Status.Releasing)
		})
	})
	t.Run("the page's columns show it", func(t *testing.T) {
		out, err := live.plane.Kubectl(t.Context(), "get", "reservations")
		require.NoError(t, err)
		require.Regexp(t, `^NAME +TENANT +RESERVED +AGE\nfoo +foo +2 +\d+[smh]`, out)
	})
	t.Run("at rest nothing is written", func(t *testing.T) {
		c.settle()
		before := c.reservation("foo")
		status := &allocate.StatusReconciler{Client: c.counted(c.admin), View: c.view, Ledger: c.ledger}
		for range 3 {
			result, err := status.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "foo"}})
			require.NoError(t, err)
			require.Zero(t, result)
		}
		require.Empty(t, c.did())
		require.Equal(t, before.ResourceVersion, c.reservation("foo").ResourceVersion)
	})
}

func TestTwoReservationsOfOneNode(t *testing.T) {
	c := newCluster(t)
	c.join("n1")
	c.start()
	c.reserve("foo", "n1")
	eventually(t, func(t *assert.CollectT) { assert.Equal(t, "foo", c.tenantOf("n1")) })
	c.reserve("bar", "n1")
	eventually(t, func(t *assert.CollectT) {
		assert.Equal(t, []v1alpha1.PendingNode{{Name: "n1", Reason: v1alpha1.PendingHeldBy, By: "foo"}}, c.reservation("bar").Status.Pending)
	})
	p := c.run(c.makeNamespaceNamed("foo"), "training", "n1")
	c.rename("foo")
	eventually(t, func(t *assert.CollectT) {
		assert.Equal(t, []v1alpha1.PendingNode{{Name: "n1", Reason: v1alpha1.PendingReleasingFrom, By: "foo"}}, c.reservation("bar").Status.Pending)
	})
	c.settle()
	c.end(p)
	eventually(t, func(t *assert.CollectT) {
		assert.Equal(t, "bar", c.tenantOf("n1"))
		is(t, c.reservation("bar"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
		is(t, c.reservation("foo"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	})
	require.Equal(t, 1, count(c.did(), "patch node"), "law 3: a handover is one patch")
	require.False(t, c.node("n1").Spec.Unschedulable)
}

func TestADeletedReservationGoesWhenItsNodesAreFree(t *testing.T) {
	c := newCluster(t)
	c.join("n1", "n2")
	c.start()
	c.reserve("foo", "n1", "n2")
	eventually(t, func(t *assert.CollectT) {
		is(t, c.reservation("foo"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	})
	require.Contains(t, series(t), "foo")
	p := c.run(c.makeNamespaceNamed("foo"), "training", "n2")
	require.NoError(t, c.admin.Delete(t.Context(), c.reservation("foo")))
	eventually(t, func(t *assert.CollectT) {
		r := c.reservation("foo")
		assert.Empty(t, c.tenantOf("n1"), "an empty node is released at once")
		assert.Equal(t, []string{"n2"}, r.Status.Nodes)
		is(t, r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNodesReleasing)
	})
	require.Equal(t, "foo", c.tenantOf("n2"))
	c.end(p)
	eventually(t, func(t *assert.CollectT) {
		assert.Empty(t, c.reservation("foo").Name, "it goes")
		assert.Empty(t, c.tenantOf("n2"))
		assert.NotContains(t, series(t), "foo", "and its metrics with it")
	})
	require.Empty(t, c.index().Grants)
}

func TestADeletedReservationWithoutNodesGoes(t *testing.T) {
	c := newCluster(t)
	c.start("without nodes")
	c.reserve("foo")
	eventually(t, func(t *assert.CollectT) {
		is(t, c.reservation("foo"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	})
	require.Empty(t, c.reservation("foo").Finalizers, "who has no nodes has nothing to release")
	require.NoError(t, c.admin.Delete(t.Context(), c.reservation("foo")))
	eventually(t, func(t *assert.CollectT) { assert.Empty(t, c.reservation("foo").Name) })
}

// From the moment that the index gives it a node, a Reservation cannot go without the release.
func TestTheFinalizerComesBeforeTheIndexAndComesBack(t *testing.T) {
	c := newCluster(t)
	c.join("n1")
	c.start()
	eventually(t, func(t *assert.CollectT) { assert.NotEmpty(t, c.stored().Data) })
	c.settle()
	c.reserve("foo", "n1")
	eventually(t, func(t *assert.CollectT) { assert.Equal(t, "foo", c.tenantOf("n1")) })
	calls := c.did()
	require.Contains(t, calls, "patch reservation foo")
	require.Less(t, slices.Index(calls, "patch reservation foo"), lastIndex(calls, "update configmap reservation-index"), "%s", calls)

	c.change("foo", func(r *v1alpha1.Reservation) { r.Finalizers = nil })
	eventually(t, func(t *assert.CollectT) {
		assert.Equal(t, []string{v1alpha1.FinalizerRelease}, c.reservation("foo").Finalizers)
	})
}

// A Reservation that does not take the finalizer gets no node and says why; the others go on.
func TestWithoutAFinalizerNoNode(t *testing.T) {
	c := newCluster(t)
	c.join("n1", "n2")
	c.reserve("foo", "n1")
	c.reserve("bar", "n2")
	r := c.reconciler()
	r.Client = interceptor.NewClient(c.admin, interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if o.GetName() == "foo" {
				return errors.New("a policy of somebody else's says no")
			}
			return w.Patch(ctx, o, p, opts...)
		},
	})
	require.NotZero(t, reconcile(t, r).RequeueAfter)
	require.Equal(t, map[string]allocate.Grant{"n2": grant("bar", allocate.Held, "bar")}, c.index().Grants)
	status := &allocate.StatusReconciler{Client: c.admin, View: c.view, Ledger: c.ledger}
	_, err := status.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "foo"}})
	require.NoError(t, err)
	ready := conditions.Get(c.reservation("foo"), v1alpha1.ConditionReady)
	require.NotNil(t, ready)
	require.Equal(t, v1alpha1.ReasonProgressingWithRetry, ready.Reason)
	require.Contains(t, ready.Message, "somebody else's says no")

	r.Client = c.counted(c.admin)
	reconcile(t, r)
	require.Equal(t, grant("foo", allocate.Held, "foo"), c.index().Grants["n1"])
}

// series are the Reservations that have metrics.
func series(t require.TestingT) (names []string) {
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "reservation_nodes" {
			for _, m := range family.GetMetric() {
				names = append(names, m.GetLabel()[0].GetValue())
			}
		}
	}
	return names
}

func TestWithoutAFenceNothingIsLockedOrReleased(t *testing.T) {
	c := newCluster(t)
	c.join("n1", "n2")
	c.start()
	c.reserve("foo", "n1")
	eventually(t, func(t *assert.CollectT) { assert.Equal(t, "foo", c.tenantOf("n1")) })
	c.settle()

	c.stand(errors.New("the policy is gone"))
	c.rename("foo", "n2")
	eventually(t, func(t *assert.CollectT) {
		r := c.reservation("foo")
		is(t, r, v1alpha1.ConditionFenceIntact, metav1.ConditionFalse, v1alpha1.ReasonFenceNotProven)
		is(t, r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonFenceNotProven)
		assert.Equal(t, []v1alpha1.PendingNode{{Name: "n2", Reason: v1alpha1.PendingFenceNotProven}}, r.Status.Pending)
		assert.Equal(t, allocate.Releasing, c.index().Grants["n1"].Phase, "the index is written all the same: it only closes")
	})
	time.Sleep(300 * time.Millisecond)
	require.Zero(t, count(c.did(), "patch node"))
	require.Equal(t, "foo", c.tenantOf("n1"))

	c.stand(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "probe", errors.New("not you")))
	eventually(t, func(t *assert.CollectT) {
		r := c.reservation("foo")
		for _, condition := range []string{v1alpha1.ConditionFenceIntact, v1alpha1.ConditionReady} {
			assert.Contains(t, conditions.GetMessage(r, condition), "pods \"probe\" is forbidden: not you", "another cause is told although nothing else changed")
		}
	})

	c.stand(nil)
	eventually(t, func(t *assert.CollectT) {
		is(t, c.reservation("foo"), v1alpha1.ConditionFenceIntact, metav1.ConditionTrue, v1alpha1.ReasonFenceProven)
		is(t, c.reservation("foo"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
		assert.Empty(t, c.tenantOf("n1"))
		assert.Equal(t, "foo", c.tenantOf("n2"))
	})
}

func TestASelectorThatCannotBeReadIsStalledAndHolds(t *testing.T) {
	c := newCluster(t)
	c.join("n1")
	c.start()
	c.reserve("foo", "n1")
	eventually(t, func(t *assert.CollectT) { assert.Equal(t, "foo", c.tenantOf("n1")) })
	c.change("foo", func(r *v1alpha1.Reservation) {
		r.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Near"}}}
	})
	eventually(t, func(t *assert.CollectT) {
		r := c.reservation("foo")
		is(t, r, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidNodeSelector)
		is(t, r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidNodeSelector)
		assert.Nil(t, conditions.Get(r, v1alpha1.ConditionReconciling), "kstatus: never both")
	})
	require.Equal(t, "foo", c.tenantOf("n1"))
	require.Equal(t, grant("foo", allocate.Held, "foo"), c.index().Grants["n1"])
}

// A Reservation that no decision could be made about says why.
func TestAReservationSaysWhyThereIsNoDecision(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, v1alpha1.IndexName, errors.New("no"))
	for name, c := range map[string]struct {
		err        error
		wantReason string
	}{
		"forbidden":     {forbidden, v1alpha1.ReasonForbidden},
		"anything else": {errors.New("etcd is full"), v1alpha1.ReasonProgressingWithRetry},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(t)
			cl.reserve("foo", "n1")
			status := &allocate.StatusReconciler{Client: cl.counted(cl.admin), View: cl.view, Ledger: cl.ledger}
			reconcileStatus := func() ctrl.Result {
				result, err := status.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "foo"}})
				require.NoError(t, err)
				return result
			}
			require.NotZero(t, reconcileStatus().RequeueAfter)
			require.Empty(t, cl.reservation("foo").Status.Conditions, "nothing is said while nothing is known")
			cl.view.Fail(c.err)
			reconcileStatus()
			r := cl.reservation("foo")
			is(t, r, v1alpha1.ConditionReady, metav1.ConditionFalse, c.wantReason)
			require.Contains(t, conditions.Get(r, v1alpha1.ConditionReady).Message, c.err.Error())
			cl.did()
			reconcileStatus()
			require.Empty(t, cl.did())
			cl.view.Publish(allocate.Decision{Generations: map[string]int64{"foo": 1}}, "")
			require.Zero(t, reconcileStatus())
			is(t, cl.reservation("foo"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
		})
	}
}

// A status that was written by a cache that is behind is a conflict, which is no error.
func TestAnOldCacheUndoesNothing(t *testing.T) {
	c := newCluster(t)
	c.reserve("foo", "n1")
	c.view.Publish(allocate.Decision{Generations: map[string]int64{"foo": 1}}, "")
	old := c.reservation("foo")
	old.Finalizers = []string{v1alpha1.FinalizerRelease}
	require.NoError(t, c.admin.Update(t.Context(), old.DeepCopy()))
	status := &allocate.StatusReconciler{Client: behind{c.counted(c.admin), old}, View: c.view, Ledger: c.ledger}
	result, err := status.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "foo"}})
	require.NoError(t, err)
	require.NotZero(t, result.RequeueAfter)
	require.Empty(t, c.reservation("foo").Status.Conditions)

	status.Client = c.counted(c.admin)
	_, err = status.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "foo"}})
	require.NoError(t, err)
	require.Equal(t, 1, len(slices.DeleteFunc(c.did(), func(call string) bool { return call != "patch reservation foo status" }))-1,
		"one patch, and the one that was refused")
	require.NotEmpty(t, c.reservation("foo").Status.Conditions)
}

// behind is a client whose cache holds an old Reservation.
type behind struct {
	client.WithWatch
	old *v1alpha1.Reservation
}

func (b behind) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	b.old.DeepCopyInto(o.(*v1alpha1.Reservation))
	return nil
}
