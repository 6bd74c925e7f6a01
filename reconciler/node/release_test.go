package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/node"
)

func (w *world) event() string {
	w.Helper()
	select {
	case e := <-w.events.Events:
		return e
	default:
		return ""
	}
}

func TestAReleaseWaitsForThePodsAndIsOnePatch(t *testing.T) {
	w := newWorld(t)
	w.join(tainted(autoscaler))
	w.lock()
	p := w.run("training")
	w.grant(true, w.releasing())
	w.reconcile()
	require.Equal(t, []string{"patch node " + w.name}, w.wrote(), "the cordon is one patch")
	n := w.get()
	require.True(t, n.Spec.Unschedulable)
	require.Equal(t, w.tenant, n.Labels[v1alpha1.LabelTenant], "label and taint stay under a running pod")
	require.Contains(t, keys(n), "reserved="+w.tenant+":NoSchedule")
	require.Equal(t, w.clock.Now().UTC().Format(time.RFC3339), n.Annotations[v1alpha1.AnnotationReleasingSince])
	require.Equal(t, w.tenant, n.Annotations[v1alpha1.AnnotationCordoned])
	require.Contains(t, w.event(), "Normal ReleaseStarted Node "+w.name)
	require.Contains(t, w.event(), "Normal ReleaseStarted")

	for range 3 {
		require.Equal(t, node.Recheck, w.reconcile().RequeueAfter, "nothing is asked again and again")
	}
	require.Empty(t, w.wrote())
	require.True(t, w.pods.nodes[w.name], "its pods are watched")
	require.EqualValues(t, 1, w.said().PodsLeft)
	require.Equal(t, "waits for 1 pod to end: "+w.tenant+"/training", w.said().WaitingFor)
	require.False(t, w.said().Drained)

	w.become(p, corev1.PodSucceeded) // finished pods do not count
	w.reconcile()
	require.True(t, w.said().Drained)
	require.Equal(t, w.version, w.said().IndexVersion)
	require.Empty(t, w.wrote(), "allocation has the word now")
	require.False(t, w.pods.nodes[w.name])

	w.grant(true, w.freed())
	w.reconcile()
	require.Equal(t, []string{"patch node " + w.name}, w.wrote(), "and the release is one patch")
	n = w.get()
	require.Equal(t, []string{"ToBeDeletedByClusterAutoscaler=1:NoSchedule"}, keys(n))
	require.NotContains(t, n.Labels, v1alpha1.LabelTenant)
	require.Empty(t, reserved(n))
	require.False(t, n.Spec.Unschedulable)
	require.Zero(t, w.said())
	require.Contains(t, w.event(), "Normal NodeReleased")
	require.Contains(t, w.event(), "Normal NodeReleased")

	w.reconcile()
	w.grant(true)
	w.reconcile()
	require.Empty(t, w.wrote())
	require.Empty(t, w.event())
}

func TestAnEmptyNodeIsReleasedWithoutACordon(t *testing.T) {
	w := newWorld(t)
	w.join()
	w.lock()
	w.grant(true, w.releasing())
	w.reconcile()
	require.True(t, w.said().Drained)
	require.Empty(t, w.wrote())
}

func TestAReleaseThatIsCalledOffIsUndoneByOnePatch(t *testing.T) {
	w := newWorld(t)
	w.join()
	w.lock()
	locked := w.get()
	w.run("training")
	w.grant(true, w.releasing())
	w.reconcile()
	w.reconcile()
	w.wrote()
	w.grant(true, w.held())
	w.reconcile()
	require.Len(t, w.wrote(), 1)
	n := w.get()
	require.Equal(t, locked.Spec, n.Spec)
	require.Equal(t, locked.Labels, n.Labels)
	require.Equal(t, reserved(locked), reserved(n))
	require.Zero(t, w.said())
	require.False(t, w.pods.nodes[w.name])
}

func TestAnAdminMayUncordonAndCordonANodeThatIsReleased(t *testing.T) {
	w := newWorld(t)
	w.join()
	w.lock()
	p := w.run("training")
	w.grant(true, w.releasing())
	w.reconcile()
	w.edit(uncordoned)
	w.reconcile()
	w.reconcile()
	require.False(t, w.get().Spec.Unschedulable, "we do not fight over it")
	require.NotContains(t, reserved(w.get()), v1alpha1.AnnotationCordoned)
	w.edit(cordoned) // theirs now
	w.end(p)
	w.reconcile()
	w.grant(true, w.freed())
	w.reconcile()
	require.Empty(t, reserved(w.get()))
	require.True(t, w.get().Spec.Unschedulable)
}

// Whose cordon it is decides how many patches a release takes: one if nobody uses the node, two if somebody does, and
// one more if an admin takes the cordon away meanwhile, which has to be written down before it can be told from theirs.
func TestAReleaseIsTwoPatchesAndOneMoreForAnAdminWhoUncordons(t *testing.T) {
	for name, c := range map[string]struct {
		busy, uncordons bool
		want            int
	}{"empty": {false, false, 1}, "busy": {true, false, 2}, "uncordoned meanwhile": {true, true, 3}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.join()
			w.lock()
			var p *corev1.Pod
			if c.busy {
				p = w.run("training")
			}
			w.grant(true, w.releasing())
			w.reconcile()
			if c.uncordons {
				w.edit(uncordoned)
				w.reconcile()
			}
			if p != nil {
				w.end(p)
			}
			w.reconcile()
			require.True(t, w.said().Drained)
			w.grant(true, w.freed())
			w.reconcile()
			require.Empty(t, reserved(w.get()))
			require.Len(t, w.wrote(), c.want)
		})
	}
}

func TestCases_A27_ALatePodIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.join()
	w.lock()
	w.grant(true, w.releasing())
	w.reconcile()
	require.True(t, w.said().Drained)
	late := w.run("late") // a bind that the API server had accepted before it enforced the index
	w.grant(true, w.freed())
	w.reconcile()
	require.Empty(t, w.wrote(), "the lock stays under a running pod")
	require.Contains(t, w.said().WaitingFor, "late")
	require.True(t, w.pods.nodes[w.name])
	w.end(late)
	w.reconcile()
	require.Len(t, w.wrote(), 1)
	require.Empty(t, reserved(w.get()))
}

func TestCases_A27_TheCordonIsOnTheServerBeforeTheFirstEviction(t *testing.T) {
	w := newWorld(t, evicting)
	w.join()
	w.lock()
	w.run("p1")
	w.before = func(call string) {
		if strings.HasPrefix(call, "eviction") {
			assert.True(t, w.get().Spec.Unschedulable)
		}
	}
	w.grant(true, w.releasing())
	w.reconcile()
	late := w.run("p2") // after the list, before the cordon was seen
	w.reconcile()
	wrote := w.wrote()
	require.Equal(t, "patch node "+w.name, wrote[0])
	require.ElementsMatch(t, []string{"eviction pod p1", "eviction pod p2"}, wrote[1:])
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(late), late))
	require.NotNil(t, late.DeletionTimestamp)

	w.reconcile()
	require.Empty(t, w.wrote(), "what is ending is not evicted again")
	require.EqualValues(t, 2, w.said().PodsLeft)
	require.False(t, w.said().Drained, "and occupies the node until it is gone")
}

// replace has a pod of the same name take a pod's place on another node, just before the Reconciler does what the call
// says. The function that it returns requires that this happened and that the new pod was left alone.
func (w *world) replace(old *corev1.Pod, call string) (requireLeftAlone func()) {
	w.Helper()
	var fresh *corev1.Pod
	w.before = func(now string) {
		if now == call {
			w.before = nil
			w.end(old)
			fresh = w.run(old.Name, func(p *corev1.Pod) { p.Spec.NodeName = "elsewhere" })
		}
	}
	return func() {
		w.Helper()
		require.NotNil(w, fresh, "it did not come to: %s", call)
		require.NotEqual(w, old.UID, fresh.UID)
		require.NoError(w, w.admin.Get(w.Context(), client.ObjectKeyFromObject(fresh), fresh))
		require.Nil(w, fresh.DeletionTimestamp, "another pod of the same name is not touched")
	}
}

func TestTheOwnersOfThePodsAreNamed(t *testing.T) {
	w := newWorld(t)
	w.join()
	w.lock()
	job := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "1-2-3", Controller: ptr.To(true)}}
	}
	w.run("a", job)
	w.run("b", job)
	w.run("bare")
	w.grant(true, w.releasing())
	w.reconcile()
	require.Equal(t, []v1alpha1.PodOwner{
		{Namespace: w.tenant, Kind: "Job", Name: "train", Pods: 2}, {Namespace: w.tenant, Kind: "Pod", Name: "bare", Pods: 1},
	}, w.said().Owners)
}

func TestCases_A25_OrphansCount(t *testing.T) {
	w := newWorld(t)
	n := w.join()
	w.lock()
	labels := map[string]string{"app": "exporter"}
	daemons := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "exporter"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}}},
		},
	}
	require.NoError(t, w.admin.Create(t.Context(), daemons))
	owner := func(apiVersion, kind, name string, uid types.UID) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
		}
	}
	w.run("daemon", owner("apps/v1", "DaemonSet", "exporter", daemons.UID))
	w.run("static", mirror, owner("v1", "Node", w.name, n.UID))
	counting := []*corev1.Pod{
		w.run("of-a-deleted-daemonset", owner("apps/v1", "DaemonSet", "gone", "1-2-3")),
		w.run("of-an-older-daemonset", owner("apps/v1", "DaemonSet", "exporter", "1-2-3")),
		w.run("of-another-node", mirror, owner("v1", "Node", w.name, "1-2-3")),
	}
	w.grant(true, w.releasing())
	w.reconcile()
	w.reconcile()
	require.EqualValues(t, len(counting), w.said().PodsLeft)
	for _, p := range counting {
		require.Contains(t, w.said().WaitingFor, p.Name)
		w.end(p)
	}
	w.reconcile()
	require.True(t, w.said().Drained, "a DaemonSet's pod and the kubelet's own hold up nothing")
}

// A gated pod is on no node, and a virtual node's is on one like any other.
func TestGatedPodsAndVirtualNodes(t *testing.T) {
	virtual := corev1.Taint{Key: "virtual-kubelet.io/provider", Value: "burst", Effect: corev1.TaintEffectNoSchedule}
	w := newWorld(t)
	w.join(tainted(virtual), func(n *corev1.Node) { n.Labels["type"] = "virtual-kubelet" })
	w.lock()
	gated := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "gated"},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/queue"}}, AutomountServiceAccountToken: ptr.To(false),
			NodeSelector: map[string]string{corev1.LabelHostname: w.name}, Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
	require.NoError(t, w.admin.Create(t.Context(), gated))
	p := w.run("remote")
	w.grant(true, w.releasing())
	w.reconcile()
	require.EqualValues(t, 1, w.said().PodsLeft)
	require.Contains(t, w.said().WaitingFor, "/remote")
	w.end(p)
	w.reconcile()
	require.True(t, w.said().Drained)
	w.grant(true, w.freed())
	w.reconcile()
	require.Contains(t, w.get().Spec.Taints, virtual, "that one is its provider's")
}

func TestWhoseNodeItIsSaysItsLabel(t *testing.T) {
	t.Run("the pods of a tenant whose Reservation is gone are waited for", func(t *testing.T) {
		w := newWorld(t)
		w.join()
		w.lock()
		w.run("own")
		require.NoError(t, w.admin.Delete(t.Context(), &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: w.tenant}}))
		w.grant(true, w.releasing())
		w.reconcile()
		w.reconcile()
		require.EqualValues(t, 1, w.said().PodsLeft)
	})
	t.Run("also in namespaces that its other Reservations accept", func(t *testing.T) {
		w := newWorld(t)
		w.join()
		w.lock()
		ci := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ci-"}}
		require.NoError(t, w.admin.Create(t.Context(), ci))
		other := reservation(w.tenant, func(s *v1alpha1.ReservationSpec) { s.Namespaces = []string{ci.Name} })
		other.Name = w.tenant + "-2"
		require.NoError(t, w.admin.Create(t.Context(), other))
		w.run("own", in(ci.Name))
		require.NoError(t, w.admin.Delete(t.Context(), &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: w.tenant}}))
		w.grant(true, w.releasing())
		w.reconcile()
		w.reconcile()
		require.EqualValues(t, 1, w.said().PodsLeft)
	})
	t.Run("a label without a Reservation is drained as the lock of its tenant", func(t *testing.T) {
		w := newWorld(t)
		w.join(func(n *corev1.Node) { n.Labels[v1alpha1.LabelTenant] = w.tenant })
		w.run("own")
		w.grant(true, allocate.Grant{Reservation: allocate.Orphan, Phase: allocate.Releasing})
		w.reconcile()
		w.reconcile()
		require.EqualValues(t, 1, w.said().PodsLeft)
	})
	t.Run("a node without a lock is left as it is, and keeps its entry until the tenant's pods have ended", func(t *testing.T) {
		w := newWorld(t)
		w.join()
		p := w.run("own")
		w.grant(true, w.releasing())
		w.reconcile()
		require.False(t, w.said().Drained)
		require.EqualValues(t, 1, w.said().PodsLeft)
		w.end(p)
		w.reconcile()
		require.True(t, w.said().Drained)
		require.Empty(t, w.wrote())
	})
}

// A cache that is behind: the node is locked, and the Reconciler's client does not know yet.
func TestANodeIsNotCalledFreeByAnOldCache(t *testing.T) {
	w := newWorld(t)
	w.join()
	stale := w.get()
	w.lock()
	w.run("own")
	w.Client = reading{WithWatch: w.counted(w.admin), stale: stale}
	w.grant(true, w.releasing())
	w.reconcile()
	require.False(t, w.said().Drained)
	require.Len(t, w.wrote(), 1)
	require.True(t, w.get().Spec.Unschedulable, "it is cordoned from what the server has")
}

// A node that was given up before its lock was on, and a cache that does not know whose it was.
func TestANodeWithoutALockIsNotCalledFreeByAnOldCache(t *testing.T) {
	w := newWorld(t)
	w.join()
	w.run("own")
	w.Client = reading{WithWatch: w.counted(w.admin), ignores: true}
	w.grant(true, w.releasing())
	w.reconcile()
	require.False(t, w.said().Drained)
	require.EqualValues(t, 1, w.said().PodsLeft)
}

func TestAHandoverThatIsCalledOffWaitsForThePodsThatWereLetIn(t *testing.T) {
	w := newWorld(t)
	w.join()
	w.lock()
	next := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "u-"}}
	require.NoError(t, w.admin.Create(t.Context(), next))
	w.reserve(next.Name)
	p := w.run("early", in(next.Name)) // it asked for the node by name, and the index let it in
	w.grant(true, allocate.Grant{Reservation: next.Name, Phase: allocate.Releasing})
	w.reconcile()
	w.reconcile()
	require.EqualValues(t, 1, w.said().PodsLeft)
	w.end(p)
	w.reconcile()
	require.True(t, w.said().Drained)
}
