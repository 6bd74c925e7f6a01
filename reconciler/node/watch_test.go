package node_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/node"
)

// manage runs the world's Reconciler and a real Watcher in a manager. The function that it returns stops it and fails
// the test if that takes long.
func (w *world) manage() (stop func()) {
	w.Helper()
	mgr, err := ctrl.NewManager(live.plane.Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Pod{}}}},
	})
	require.NoError(w, err)
	typed, err := kubernetes.NewForConfig(live.plane.Config)
	require.NoError(w, err)
	watcher := node.NewWatcher(typed)
	require.NoError(w, mgr.Add(watcher))
	cached, err := client.NewWithWatch(live.plane.Config, client.Options{Scheme: scheme, Cache: &client.CacheOptions{Reader: mgr.GetCache()}})
	require.NoError(w, err)
	w.Client, w.Pods, w.Clock = w.counted(cached), watcher, clock.RealClock{}
	require.NoError(w, w.SetupWithManager(mgr, watcher))

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = func() {
		cancel()
		select {
		case err := <-ended:
			assert.NoError(w, err)
		case <-time.After(20 * time.Second):
			assert.Fail(w, "the manager does not stop")
		}
	}
	return stop
}

func TestTheNodeIsSeenToAsSoonAsItsLastPodEnds(t *testing.T) {
	w := newWorld(t)
	w.join()
	p := w.run("training")
	defer w.manage()()
	w.grant(true, w.held())
	eventually(t, func(c *assert.CollectT) { assert.Equal(c, w.tenant, w.get().Labels[v1alpha1.LabelTenant]) })
	w.grant(true, w.releasing())
	eventually(t, func(c *assert.CollectT) { assert.EqualValues(c, 1, w.said().PodsLeft) })
	w.become(p, corev1.PodSucceeded)
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.True(c, w.said().Drained) }, 30*time.Second, 10*time.Millisecond)
	w.grant(true, w.freed())
	eventually(t, func(c *assert.CollectT) { assert.Empty(c, reserved(w.get())) })
	require.Equal(t, []string{"patch node " + w.name, "patch node " + w.name, "patch node " + w.name}, w.wrote(),
		"a lock, a cordon and a release: one patch each")
}

func TestAPodThatIsDeletedIsSeenToo(t *testing.T) {
	w := newWorld(t)
	w.join()
	p := w.run("training")
	w.lock()
	defer w.manage()()
	w.grant(true, w.releasing())
	eventually(t, func(c *assert.CollectT) { assert.EqualValues(c, 1, w.said().PodsLeft) })
	require.NoError(t, w.admin.Delete(t.Context(), p, client.GracePeriodSeconds(30)))
	w.end(p)
	eventually(t, func(c *assert.CollectT) { assert.True(c, w.said().Drained) })
}

// At rest nothing is written and nothing is asked, whatever others do to the node.
func TestCases_A28_ANodeAtRestIsSilent(t *testing.T) {
	w := newWorld(t)
	w.join()
	defer w.manage()()
	w.grant(true, w.held())
	eventually(t, func(c *assert.CollectT) { assert.Equal(c, w.tenant, w.get().Labels[v1alpha1.LabelTenant]) })
	w.wrote()
	for i := range 10 { // it flaps
		w.edit(func(n *corev1.Node) {
			n.Spec.Taints = without(n, notReady.Key)
			if i%2 == 0 {
				n.Spec.Taints = append(n.Spec.Taints, notReady)
			}
			n.Annotations["example.com/heartbeat"] = time.Now().String()
		})
		w.version++
		w.view.Publish(allocate.Decision{Index: allocate.Index{Version: w.version, Grants: map[string]allocate.Grant{w.name: w.held()}}}, doubt(i%3 > 0))
	}
	w.grant(true, w.held())
	time.Sleep(500 * time.Millisecond) // nothing is to happen: there is nothing to wait for
	require.Empty(t, w.wrote())
	require.Empty(t, w.event())
}

func TestPublishingNeverWaitsForTheNodes(t *testing.T) {
	w := newWorld(t)
	many := map[string]allocate.Grant{}
	for _, name := range manyNames(3000) {
		many[name] = w.held()
	}
	publish := func(enforced bool) {
		w.version++
		w.view.Publish(allocate.Decision{Index: allocate.Index{Version: w.version, Grants: many}}, doubt(enforced))
	}
	stop := w.manage()
	publish(true)
	publish(false)
	stop()
	publish(true) // while the manager is gone, too
	publish(false)
}

func manyNames(n int) (names []string) {
	for i := range n {
		names = append(names, "no-such-node-"+string(rune('a'+i%26))+time.Duration(i).String())
	}
	return names
}

// started is a Watcher that runs for a test, and the queue of the nodes that it wakes.
func started(t *testing.T) (*node.Watcher, priorityqueue.PriorityQueue[reconcile.Request]) {
	t.Helper()
	server(t)
	typed, err := kubernetes.NewForConfig(live.plane.Config)
	require.NoError(t, err)
	w := node.NewWatcher(typed)
	queue := priorityqueue.New[reconcile.Request]("test")
	t.Cleanup(queue.ShutDown)
	require.NoError(t, w.Changed().Start(t.Context(), queue))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return w, queue
}

// drain takes everything out of a queue until it has been quiet for a moment.
func drain(t *testing.T, queue priorityqueue.PriorityQueue[reconcile.Request]) (names []string) {
	t.Helper()
	for quiet := 0; quiet < 10; quiet++ {
		for queue.Len() > 0 {
			r, _ := queue.Get()
			names = append(names, r.Name)
			queue.Done(r)
			quiet = 0
		}
		time.Sleep(20 * time.Millisecond)
	}
	return names
}

func requireWoken(t *testing.T, queue priorityqueue.PriorityQueue[reconcile.Request], why ...any) {
	t.Helper()
	require.Eventually(t, func() bool { return queue.Len() > 0 }, time.Minute, 10*time.Millisecond, why...)
	drain(t, queue)
}

func TestWatcherWakesForWhatMatters(t *testing.T) {
	w := newWorld(t)
	w.join()
	watcher, queue := started(t)
	watcher.Watch(w.name)
	watcher.Watch(w.name)
	requireWoken(t, queue, "the first list asks for a look: a pod may have ended before it")

	p := w.run("training")
	requireWoken(t, queue)
	before := p.DeepCopy()
	p.Annotations = map[string]string{"example.com/step": "100"}
	require.NoError(t, w.admin.Patch(t.Context(), p, client.MergeFrom(before)))
	require.Empty(t, drain(t, queue), "a change that changes nothing for the node wakes nobody")
	w.run("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "another-node" })
	require.Empty(t, drain(t, queue), "nor do the pods of other nodes")

	require.NoError(t, w.admin.Delete(t.Context(), p, client.GracePeriodSeconds(30)))
	requireWoken(t, queue)
	w.end(p)
	requireWoken(t, queue)

	watcher.Forget(w.name)
	watcher.Forget(w.name)
	w.run("later")
	require.Empty(t, drain(t, queue), "a forgotten node is not watched")
}

func TestWatcherLeavesNothingBehind(t *testing.T) {
	watcher, queue := started(t)
	names := manyNames(40)
	watcher.Watch(names[0])
	requireWoken(t, queue)
	watcher.Forget(names[0])
	settle := func() int {
		least := runtime.NumGoroutine()
		for range 20 {
			time.Sleep(50 * time.Millisecond)
			least = min(least, runtime.NumGoroutine())
		}
		return least
	}
	before := settle()
	for range 3 {
		for _, name := range names {
			watcher.Watch(name)
		}
		requireWoken(t, queue)
		require.Greater(t, runtime.NumGoroutine(), before+len(names))
		for _, name := range names {
			watcher.Forget(name)
		}
	}
	require.Eventually(t, func() bool { return settle() <= before+5 }, time.Minute, time.Millisecond, "%d goroutines before", before)
}

func TestWatcherBeginsWhatWasAskedForBeforeItStarted(t *testing.T) {
	w := newWorld(t)
	w.join()
	w.run("training")
	typed, err := kubernetes.NewForConfig(live.plane.Config)
	require.NoError(t, err)
	watcher := node.NewWatcher(typed)
	watcher.Watch(w.name)
	watcher.Watch("forgotten")
	watcher.Forget("forgotten")
	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	require.NoError(t, watcher.Changed().Start(t.Context(), queue))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- watcher.Start(ctx) }()
	r, _ := queue.Get()
	require.Equal(t, w.name, r.Name)
	queue.Done(r)
	cancel()
	require.NoError(t, <-ended)
	watcher.Watch("too-late") // does nothing, and does not hang
	watcher.Forget("too-late")
}
