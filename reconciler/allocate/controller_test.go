package allocate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
)

func grant(reservation string, phase allocate.Phase, namespaces ...string) allocate.Grant {
	return allocate.Grant{Reservation: reservation, Phase: phase, Namespaces: namespaces}
}

func TestIndexThenFenceThenNode(t *testing.T) {
	c := newCluster(t)
	c.start()
	eventually(t, func(t *assert.CollectT) {
		assert.NotEmpty(t, c.stored().Data, "there is an index before there is anything to put in")
	})
	c.settle()
	c.join("n1")
	c.reserve("foo", "n1")
	eventually(t, func(t *assert.CollectT) { assert.Equal(t, "foo", c.tenantOf("n1")) })
	index := c.index()
	require.Equal(t, map[string]allocate.Grant{"n1": grant("foo", allocate.Held, "foo")}, index.Grants)
	calls := c.did()
	order := []string{"update configmap reservation-index", fmt.Sprintf("prove %d", index.Version), "patch node n1"}
	for i := range order[1:] {
		require.Less(t, slices.Index(calls, order[i]), slices.Index(calls, order[i+1]), "%s", calls)
	}
	require.Equal(t, 1, count(calls, "update configmap"), "%s", calls)
	require.Equal(t, 1, count(calls, "patch node"), "%s", calls)

	p := c.run(c.makeNamespaceNamed("foo"), "training", "n1")
	c.rename("foo")
	eventually(t, func(t *assert.CollectT) { assert.True(t, c.node("n1").Spec.Unschedulable) })
	require.Equal(t, grant("foo", allocate.Releasing), c.index().Grants["n1"], "the entry accepts nobody before the cordon")
	c.end(p)
	eventually(t, func(t *assert.CollectT) { assert.Empty(t, c.index().Grants) })
	calls = c.did()
	require.Equal(t, 2, count(calls, "patch node"), "a cordon and a release: %s", calls)
	require.Less(t, slices.Index(calls, "patch node n1"), lastIndex(calls, "update configmap reservation-index"), "the entry goes last")
	require.Empty(t, c.tenantOf("n1"))
}

func count(calls []string, prefix string) (n int) {
	for _, call := range calls {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

func lastIndex(calls []string, call string) int {
	for i, c := range slices.Backward(calls) {
		if c == call {
			return i
		}
	}
	return -1
}

// makeNamespaceNamed makes a namespace that may be there already.
func (c *cluster) makeNamespaceNamed(name string) string {
	c.Helper()
	require.NoError(c, client.IgnoreAlreadyExists(c.admin.Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
	return name
}

func TestManyChangesAreFewWrites(t *testing.T) {
	c := newCluster(t)
	c.start("without nodes")
	eventually(t, func(t *assert.CollectT) { assert.NotEmpty(t, c.stored().Data) })
	c.settle()
	names := []string{}
	for i := range 50 {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	c.join(names...)
	c.reserve("foo", names...)
	eventually(t, func(t *assert.CollectT) { assert.Len(t, c.index().Grants, 50) })
	c.settleWith(t, func(calls []string) { require.LessOrEqual(t, count(calls, "update configmap"), 2, "%s", calls) })
}

// settleWith is settle, and gives what was done to check.
func (c *cluster) settleWith(t *testing.T, check func([]string)) {
	t.Helper()
	var all []string
	for quiet := 0; quiet < 8; quiet++ {
		if calls := c.did(); len(calls) > 0 {
			all, quiet = append(all, calls...), 0
		}
		time.Sleep(100 * time.Millisecond)
	}
	check(all)
}

// A node is not granted twice, though two decide at once: who writes second decides again on what the first wrote.
func TestTwoWriters(t *testing.T) {
	c := newCluster(t)
	c.join("n1", "n2")
	c.reserve("foo", "n1")
	first, second := c.reconciler(), c.reconciler()
	second.View = &allocate.View{}
	reconcile(t, first)

	c.before = func(call string) {
		if strings.HasPrefix(call, "update configmap") {
			c.before = nil
			c.rename("foo", "n1")
			c.reserve("bar", "n1", "n2")
			reconcile(t, second)
			c.rename("foo", "n1", "n2")
			require.Equal(t, grant("bar", allocate.Held, "bar"), c.index().Grants["n2"])
		}
	}
	c.rename("foo", "n1", "n2")
	result := reconcile(t, first)
	require.NotZero(t, result.RequeueAfter, "a conflict is no error, and comes back")
	require.Equal(t, grant("bar", allocate.Held, "bar"), c.index().Grants["n2"])
	reconcile(t, first)
	require.Equal(t, map[string]allocate.Grant{"n1": grant("foo", allocate.Held, "foo"), "n2": grant("bar", allocate.Held, "bar")}, c.index().Grants)
	_, _, pending := first.View.Reservation("foo")
	require.Equal(t, []v1alpha1.PendingNode{{Name: "n2", Reason: v1alpha1.PendingHeldBy, By: "bar"}}, pending)
}

// The first index is made by one of two.
func TestTwoWritersOfTheFirstIndex(t *testing.T) {
	c := newCluster(t)
	c.join("n1")
	c.reserve("foo", "n1")
	first, second := c.reconciler(), c.reconciler()
	c.before = func(call string) {
		if strings.HasPrefix(call, "create configmap") {
			c.before = nil
			reconcile(t, second)
		}
	}
	require.NotZero(t, reconcile(t, first).RequeueAfter)
	reconcile(t, first)
	require.Equal(t, map[string]allocate.Grant{"n1": grant("foo", allocate.Held, "foo")}, c.index().Grants)
}

func reconcile(t *testing.T, r *allocate.Reconciler) ctrl.Result {
	t.Helper()
	result, err := r.Reconcile(t.Context(), ctrl.Request{})
	require.NoError(t, err)
	return result
}

func TestAtRestNothingIsWritten(t *testing.T) {
	c := newCluster(t)
	c.join("n1")
	c.reserve("foo", "n1")
	r := c.reconciler()
	reconcile(t, r)
	before := c.stored().ResourceVersion
	c.did()
	for range 3 {
		require.Equal(t, time.Minute, reconcile(t, r).RequeueAfter)
	}
	require.Empty(t, c.did(), "nor is the fence asked again before its time")
	require.Equal(t, before, c.stored().ResourceVersion)
}

// watched notes every state of the index ConfigMap from now on, until the function that it returns is called.
func (c *cluster) watched() (states func() []map[string]string) {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	w, err := c.admin.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(c.namespace))
	require.NoError(c, err)
	var mu sync.Mutex
	var seen []map[string]string
	var done sync.WaitGroup
	done.Go(func() {
		for e := range w.ResultChan() {
			if m, ok := e.Object.(*corev1.ConfigMap); ok && m.Name == v1alpha1.IndexName && e.Type != watch.Deleted {
				mu.Lock()
				seen = append(seen, m.Data)
				mu.Unlock()
			}
		}
	})
	return func() []map[string]string {
		time.Sleep(200 * time.Millisecond)
		cancel()
		w.Stop()
		done.Wait()
		return seen
	}
}

// However the index is lost or damaged, it comes back as the locks say, with a higher version, and is never seen by the
// fence without the locked nodes.
func TestALostIndexIsRebuilt(t *testing.T) {
	set := func(key, value string) func(*cluster) {
		return func(c *cluster) {
			m := c.stored()
			if value == "" {
				delete(m.Data, key)
			} else {
				m.Data[key] = value
			}
			require.NoError(c, c.admin.Update(c.Context(), m))
		}
	}
	cases := map[string]func(*cluster){
		"deleted":                    func(c *cluster) { require.NoError(c, c.admin.Delete(c.Context(), c.stored())) },
		"grants that cannot be read": set(allocate.KeyGrants, "n1 foo for ever\n"),
		"a node twice":               set(allocate.KeyGrants, "n1 foo\nn1 bar\n"),
		"a node of nobody":           set(allocate.KeyGrants, "n9 nobody\n"),
		"no grants":                  set(allocate.KeyGrants, ""),
		"a node opened":              set(allocate.KeyNodes, "|reservation-fence-probe |n1 foo|n1 evil|n2 foo|"),
		"a node missing":             set(allocate.KeyNodes, "|reservation-fence-probe |n1 foo|"),
		"no nodes":                   set(allocate.KeyNodes, ""),
		"no version":                 set(allocate.KeyVersion, ""),
		"an old version":             set(allocate.KeyVersion, "5"),
		"a version of another":       set(allocate.KeyVersion, "five"),
		"emptied": func(c *cluster) {
			m := c.stored()
			m.Data = nil
			require.NoError(c, c.admin.Update(c.Context(), m))
		},
	}
	want := allocate.Index{Grants: map[string]allocate.Grant{
		"n1": grant("foo", allocate.Held, "foo"), "n2": grant("foo", allocate.Held, "foo"), "n3": grant("foo", allocate.Releasing),
	}}
	c := newCluster(t)
	c.makeNamespaceNamed("foo")
	c.join("n1", "n2", "n3")
	c.reserve("foo", "n1", "n2", "n3")
	c.start()
	eventually(t, func(t *assert.CollectT) { assert.Equal(t, "foo", c.tenantOf("n3")) })
	c.run("foo", "training", "n3")
	c.rename("foo", "n1", "n2")
	eventually(t, func(t *assert.CollectT) { assert.True(t, c.node("n3").Spec.Unschedulable) })
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			c.settle()
			before := c.index()
			require.True(t, want.Equal(before), "%v", before)
			damage(c)
			states := c.watched()
			eventually(t, func(t *assert.CollectT) {
				now, err := allocate.Parse(c.stored().Data)
				assert.NoError(t, err)
				assert.True(t, want.Equal(now), "%v", now)
				assert.Greater(t, now.Version, before.Version)
				assert.Equal(t, now.Data(), c.stored().Data)
			})
			for i, data := range states() {
				if version, err := strconv.ParseInt(data[allocate.KeyVersion], 10, 64); err == nil && version > before.Version {
					require.Equal(t, want.Data()[allocate.KeyNodes], data[allocate.KeyNodes], "state %d", i)
				}
			}
			require.Zero(t, count(c.did(), "patch node"), "no node is touched by it")
		})
	}
}

func TestEnsureIndex(t *testing.T) {
	now := time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	ensure := func(c *cluster) *corev1.ConfigMap {
		c.Helper()
		m, err := allocate.EnsureIndex(c.Context(), c.admin, c.counted(c.admin), c.namespace, now)
		require.NoError(c, err)
		require.Equal(c, c.stored().Data, m.Data)
		return m
	}
	t.Run("makes one where there is nothing to say", func(t *testing.T) {
		c := newCluster(t)
		m := ensure(c)
		require.Equal(t, "|reservation-fence-probe |", m.Data[allocate.KeyNodes])
		require.Greater(t, c.index().Version, now.Unix()-1)
		c.did()
		require.Equal(t, m, ensure(c))
		require.Empty(t, c.did(), "and leaves one that is there")
	})
	t.Run("never makes an empty one over locked nodes", func(t *testing.T) {
		c := newCluster(t)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n1", Labels: map[string]string{v1alpha1.LabelTenant: "foo"}, Annotations: map[string]string{v1alpha1.AnnotationReservation: "foo"},
		}}
		require.NoError(t, c.admin.Create(t.Context(), n))
		c.reserve("foo", "n1")
		m := ensure(c)
		require.Contains(t, m.Data[allocate.KeyNodes], "|n1 foo|")
		require.Equal(t, []string{"create configmap reservation-index"}, c.did())
	})
	t.Run("mends one that cannot be read", func(t *testing.T) {
		c := newCluster(t)
		require.NoError(t, c.admin.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: v1alpha1.IndexName}, Data: map[string]string{allocate.KeyGrants: "what?"},
		}))
		require.Equal(t, "", ensure(c).Data[allocate.KeyGrants])
	})
	t.Run("may be called by several replicas at once", func(t *testing.T) {
		c := newCluster(t)
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			all.Go(func() { _, errs[i] = allocate.EnsureIndex(t.Context(), c.admin, c.admin, c.namespace, now) })
		}
		all.Wait()
		require.NoError(t, errors.Join(errs...))
	})
	t.Run("says what is wrong", func(t *testing.T) {
		c := newCluster(t)
		_, err := allocate.EnsureIndex(t.Context(), c.admin, c.admin, "no-such-namespace", now)
		require.ErrorContains(t, err, "writing the index")
		require.ErrorContains(t, err, "no-such-namespace")
	})
}

// The Ledger's word is believed only for the release that it speaks of.
func TestOldReportsOfADrainAreNotBelieved(t *testing.T) {
	drained := func(version int64) ledger.Report { return ledger.Report{Drained: true, IndexVersion: version} }
	c := newCluster(t)
	c.join("n1")
	n := c.node("n1")
	n.Labels[v1alpha1.LabelTenant], n.Annotations = "foo", map[string]string{v1alpha1.AnnotationReservation: "foo"}
	require.NoError(t, c.admin.Update(t.Context(), n))
	c.reserve("foo")
	r := c.reconciler()
	var again []string
	c.view.Watch(func(node string) { again = append(again, node) }, nil)

	reconcile(t, r)
	released := c.index().Version
	require.Equal(t, grant("foo", allocate.Releasing), c.index().Grants["n1"])
	c.ledger.Set("n1", drained(released-1))
	reconcile(t, r)
	require.Equal(t, allocate.Releasing, c.index().Grants["n1"].Phase, "seen before the release was enforced")
	require.Equal(t, []string{"n1", "n1"}, again, "so the node is asked to look again")

	t.Run("nor when somebody else has written the index since", func(t *testing.T) {
		c.ledger.Set("n1", drained(released))
		m := c.stored()
		m.Data = allocate.Index{Version: released + 7, Grants: c.index().Grants}.Data()
		require.NoError(t, c.admin.Update(t.Context(), m))
		reconcile(t, r)
		require.Equal(t, allocate.Releasing, c.index().Grants["n1"].Phase)
		require.Len(t, again, 3)
	})
	t.Run("a report about this release is", func(t *testing.T) {
		c.ledger.Set("n1", drained(c.index().Version))
		reconcile(t, r)
		require.Equal(t, allocate.Freed, c.index().Grants["n1"].Phase)
	})
}

func TestAVersionNeverGoesDown(t *testing.T) {
	c := newCluster(t)
	r := c.reconciler()
	reconcile(t, r)
	high := c.index().Version + 1000
	m := c.stored()
	m.Data = allocate.Index{Version: high}.Data()
	require.NoError(t, c.admin.Update(t.Context(), m))
	reconcile(t, r)
	require.NoError(t, c.admin.Delete(t.Context(), c.stored()))
	reconcile(t, r)
	require.Greater(t, c.index().Version, high, "or an answer about the old index would prove the new one")
	_, version := c.view.Enforced()
	require.Equal(t, c.index().Version, version)
}

func TestAStandingFenceIsAskedAgainInAWhile(t *testing.T) {
	c := newCluster(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := c.reconciler()
	r.Clock = clock
	proofs := func() int { return count(c.did(), "prove") }
	enforced := func() bool { enforced, _ := c.view.Enforced(); return enforced }
	require.Equal(t, time.Minute, reconcile(t, r).RequeueAfter)
	require.Equal(t, 1, proofs())
	clock.SetTime(clock.Now().Add(30 * time.Second))
	reconcile(t, r)
	require.Zero(t, proofs())
	clock.SetTime(clock.Now().Add(31 * time.Second))
	reconcile(t, r)
	require.Equal(t, 1, proofs())
	require.True(t, enforced())

	clock.SetTime(clock.Now().Add(time.Minute))
	c.stand(errors.New("no"))
	require.Equal(t, 2*time.Second, reconcile(t, r).RequeueAfter)
	require.True(t, enforced(), "one no may be a restart of the API server")
	require.Equal(t, 4*time.Second, reconcile(t, r).RequeueAfter)
	require.False(t, enforced(), "two are none")
	require.Equal(t, 2, proofs())
	for _, seconds := range []time.Duration{8, 15, 15} {
		require.Equal(t, seconds*time.Second, reconcile(t, r).RequeueAfter)
	}
	c.stand(nil)
	require.Equal(t, time.Minute, reconcile(t, r).RequeueAfter)
	require.True(t, enforced())

	c.stand(errors.New("no"))
	c.reserve("foo", "n1")
	c.join("n1")
	reconcile(t, r)
	require.False(t, enforced(), "a new index is not enforced before it was seen to be")
}

// The cache does not know yet that a node was locked, and all else says that it is free.
func TestANodeIsNotForgottenByAnOldCache(t *testing.T) {
	c := newCluster(t)
	c.join("n1", "n2")
	c.reserve("foo")
	old := []corev1.Node{*c.node("n1"), *c.node("n2")}
	n := c.node("n1")
	n.Labels[v1alpha1.LabelTenant], n.Annotations = "foo", map[string]string{v1alpha1.AnnotationReservation: "foo"}
	require.NoError(t, c.admin.Update(t.Context(), n))
	require.NoError(t, c.admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: v1alpha1.IndexName},
		Data:       allocate.Index{Version: 7, Grants: map[string]allocate.Grant{"n1": grant("foo", allocate.Freed), "n2": grant("foo", allocate.Freed)}}.Data(),
	}))
	r := c.reconciler()
	r.Client = listing{c.counted(c.admin), old}
	reconcile(t, r)
	require.Equal(t, map[string]allocate.Grant{"n1": grant("foo", allocate.Freed)}, c.index().Grants)
	n.Labels, n.Annotations = nil, nil
	require.NoError(t, c.admin.Update(t.Context(), n))
	reconcile(t, r)
	require.Empty(t, c.index().Grants)
}

// listing is a client whose cache holds old Nodes.
type listing struct {
	client.WithWatch
	nodes []corev1.Node
}

func (l listing) List(ctx context.Context, o client.ObjectList, opts ...client.ListOption) error {
	if nodes, ok := o.(*corev1.NodeList); ok {
		nodes.Items = l.nodes
		return nil
	}
	return l.WithWatch.List(ctx, o, opts...)
}
