package node_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/node"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

var (
	simulations = flag.Int("simulations", 30, "how many histories TestSimulation plays")
	simulated   = flag.Uint64("simulation-seed", 0, "the one seed that TestSimulation plays, instead of many")
)

// simulation is a history of what users, pods, admins and crashes do, with the real workers in between, one step at a
// time in any order, over an API server in memory, a cache that is behind, and a fence that enforces an old index.
type simulation struct {
	*testing.T
	*rand.Rand
	server client.WithWatch
	cache  *cache
	clock  *clocktesting.FakePassiveClock
	allocate.Reconciler
	status allocate.StatusReconciler
	nodes  node.Reconciler
	fence  fence
	log    []string
	// admins are the nodes that an admin has cordoned.
	admins map[string]bool
	pods   int
	// working is what is at work: one worker decides, and one is at each node.
	working map[string]bool
	calm    bool
	// nodesBefore and podsBefore are what was there before the last write or other change.
	nodesBefore map[string]*corev1.Node
	podsBefore  []corev1.Pod
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{
		T: t, Rand: rand.New(rand.NewPCG(seed, 0)), admins: map[string]bool{}, working: map[string]bool{}, clock: clocktesting.NewFakePassiveClock(now),
		server: fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Reservation{}, &corev1.Pod{}).
			WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build(),
	}
	s.fence.server = s.server
	s.cache = &cache{WithWatch: s.server, before: s.meanwhile}
	s.start()
	for i := range 4 {
		s.join(fmt.Sprintf("n%d", i))
	}
	return s
}

// start is a new process.
func (s *simulation) start() {
	view, ledger := &allocate.View{}, &report.Ledger{}
	s.cache.syncNodes()
	s.cache.syncReservations()
	s.Reconciler = allocate.Reconciler{
		Client: s.cache, Live: s.server, Namespace: v1alpha1.OperatorNamespace, Fence: &s.fence, Ledger: ledger, View: view, Clock: s.clock,
		Concurrency: 1, // one history for one seed
	}
	s.status = allocate.StatusReconciler{Client: s.cache, View: view, Ledger: ledger}
	s.nodes = node.Reconciler{
		Client: s.cache, Live: s.server, Pods: &watched{nodes: map[string]bool{}}, View: view, Ledger: ledger,
		Events: events.NewFakeRecorder(1 << 16), Clock: s.clock,
	}
}

func (s *simulation) one(of ...string) string { return of[s.IntN(len(of))] }
func (s *simulation) aNode() string           { return s.one("n0", "n1", "n2", "n3") }

func (s *simulation) join(name string) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": s.one("a", "b")}, UID: types.UID(fmt.Sprint(s.Uint64()))}}
	_ = s.server.Create(context.Background(), n)
}

// editNode changes a node as others do.
func (s *simulation) editNode(name string, change func(*corev1.Node)) {
	n := &corev1.Node{}
	if s.server.Get(context.Background(), client.ObjectKey{Name: name}, n) == nil {
		change(n)
		require.NoError(s, s.server.Update(context.Background(), n))
	}
}

// reserve makes or changes a Reservation. Its tenant is t0, t1 or, made anew, another.
func (s *simulation) reserve(name string) {
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	exists := s.server.Get(context.Background(), client.ObjectKey{Name: name}, r) == nil
	if exists && !r.DeletionTimestamp.IsZero() {
		return
	}
	if !exists {
		r.Spec.Tenant = s.one("t0", "t1")
		r.UID, r.Generation = types.UID(fmt.Sprint(s.Uint64())), 0
		r.CreationTimestamp = metav1.NewTime(s.clock.Now())
	}
	r.Spec.ReservedNodes, r.Spec.NodeSelector = nil, nil
	if s.IntN(4) == 0 {
		r.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": s.one("a", "b")}}
	}
	if r.Spec.NodeSelector == nil || s.IntN(3) == 0 {
		r.Spec.ReservedNodes = []string{}
		for _, i := range s.Perm(4)[:s.IntN(4)] {
			r.Spec.ReservedNodes = append(r.Spec.ReservedNodes, fmt.Sprintf("n%d", i))
		}
	}
	r.Spec.EvictOnRelease = s.IntN(5) == 0
	r.Spec.TaintEffect = corev1.TaintEffect(s.one("NoSchedule", "NoSchedule", "PreferNoSchedule"))
	r.Generation++ // as the API server does
	if exists {
		require.NoError(s, s.server.Update(context.Background(), r))
	} else {
		require.NoError(s, s.server.Create(context.Background(), r))
	}
}

func (s *simulation) release(name string) {
	r := &v1alpha1.Reservation{}
	if s.server.Get(context.Background(), client.ObjectKey{Name: name}, r) == nil && r.DeletionTimestamp.IsZero() {
		r.Generation++
		require.NoError(s, s.server.Update(context.Background(), r))
		require.NoError(s, s.server.Delete(context.Background(), r))
	}
}

// schedule binds a pod, if scheduler and fence let it: a tenant's own, one that asks for a node by name, or one of
// somebody else that tolerates everything.
func (s *simulation) schedule() {
	namespace, name := s.one("t0", "t1", "other"), s.aNode()
	n := &corev1.Node{}
	if s.server.Get(context.Background(), client.ObjectKey{Name: name}, n) != nil || n.Spec.Unschedulable && s.IntN(4) > 0 {
		return
	}
	if tenant := n.Labels[v1alpha1.LabelTenant]; tenant != namespace && s.IntN(2) == 0 {
		return // its affinity, or the taint
	}
	if !s.fence.accepts(name, namespace) {
		return
	}
	if tenant := n.Labels[v1alpha1.LabelTenant]; tenant != "" && tenant != namespace {
		// The one way in is a handover: the node is granted to the next, and the pods of the one before are gone.
		require.Contains(s, s.fence.data[allocate.KeyNodes], "|"+name+" "+namespace+"|", "law 8: a pod of %s is bound to %s, reserved for %s", namespace, name, tenant)
		for _, p := range s.running() {
			require.False(s, p.Spec.NodeName == name && p.Namespace == tenant, "law 8: a pod of %s is bound to %s beside those of %s", namespace, name, tenant)
		}
	}
	s.pods++
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("p%d", s.pods), UID: types.UID(fmt.Sprint(s.pods))},
		Spec:       corev1.PodSpec{NodeName: name}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	require.NoError(s, s.server.Create(context.Background(), p))
	require.NoError(s, s.server.Status().Update(context.Background(), p))
}

func (s *simulation) running() []corev1.Pod {
	var l corev1.PodList
	require.NoError(s, s.server.List(context.Background(), &l))
	return l.Items
}

func (s *simulation) endPod() {
	if pods := s.running(); len(pods) > 0 {
		_ = s.server.Delete(context.Background(), &pods[s.IntN(len(pods))])
	}
}

// meanwhile is what happens while a worker has read and not written yet.
func (s *simulation) meanwhile() {
	if len(s.working) < 3 && !s.calm && s.IntN(3) == 0 {
		for range 1 + s.IntN(4) {
			s.play("  meanwhile: ")
		}
		s.remember()
	}
}

func (s *simulation) remember() { s.nodesBefore, s.podsBefore = s.live(), s.running() }

// play does one thing and demands the laws.
func (s *simulation) play(when string) {
	s.remember()
	s.log = append(s.log, when+s.step())
	s.check()
}

// work lets a worker do something, unless it is at it already.
func (s *simulation) work(key string, f func()) {
	if !s.working[key] {
		s.working[key] = true
		defer delete(s.working, key)
		f()
	}
}

func (s *simulation) allocateOnce() {
	s.work("allocate", s.allocateNow)
}

func (s *simulation) allocateNow() {
	_, _ = s.Reconciler.Reconcile(context.Background(), ctrl.Request{})
}

func (s *simulation) nodeOnce(name string) {
	s.work("node "+name, func() {
		_, err := s.nodes.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		require.NoError(s, err)
	})
}

func (s *simulation) statusOnce(name string) {
	s.work("status "+name, func() {
		_, err := s.status.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		require.NoError(s, err)
	})
}

// step does one thing, and says which.
func (s *simulation) step() string {
	name := s.aNode()
	r := s.one("r0", "r1", "r2")
	switch i := s.IntN(100); {
	case i < 22:
		s.allocateOnce()
		return "allocate"
	case i < 46:
		s.nodeOnce(name)
		return "node " + name
	case i < 52:
		s.statusOnce(r)
		return "status " + r
	case i < 58:
		s.cache.syncNodes()
		return "the cache of nodes catches up"
	case i < 64:
		s.cache.syncReservations()
		return "the cache of reservations catches up"
	case i < 68:
		s.fence.look()
		return "the fence catches up"
	case i < 78:
		s.schedule()
		return "schedule"
	case i < 84:
		s.endPod()
		return "a pod ends"
	case i < 90:
		s.reserve(r)
		return "reserve " + r
	case i < 92:
		s.release(r)
		return "delete " + r
	case i < 94:
		if len(s.working) > 0 {
			return "nothing" // a process that is killed does not write afterwards
		}
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
		s.start()
		return "the process is killed and starts again"
	case i < 95:
		s.fence.broken = !s.fence.broken
		return fmt.Sprint("the fence is broken: ", s.fence.broken)
	case i < 97:
		s.editNode(name, func(n *corev1.Node) {
			n.Spec.Taints = append(without(n, "other"), corev1.Taint{Key: "other", Value: fmt.Sprint(s.IntN(9)), Effect: corev1.TaintEffectNoSchedule})
		})
		return "somebody taints " + name
	case i < 98:
		s.editNode(name, func(n *corev1.Node) { n.Labels["pool"] = s.one("a", "b") })
		return "somebody labels " + name
	case i < 99:
		s.editNode(name, func(n *corev1.Node) {
			if _, ours := n.Annotations[v1alpha1.AnnotationCordoned]; !ours {
				n.Spec.Unschedulable = !n.Spec.Unschedulable
				s.admins[name] = n.Spec.Unschedulable
			}
		})
		return "an admin cordons or uncordons " + name
	default:
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
		_ = s.server.Delete(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OperatorNamespace, Name: v1alpha1.IndexName}})
		return "the index is deleted"
	}
}

func (s *simulation) live() map[string]*corev1.Node {
	var l corev1.NodeList
	require.NoError(s, s.server.List(context.Background(), &l))
	out := map[string]*corev1.Node{}
	for i := range l.Items {
		out[l.Items[i].Name] = &l.Items[i]
	}
	return out
}

// check demands the laws between what was before and what is.
func (s *simulation) check() {
	before, podsBefore, after := s.nodesBefore, s.podsBefore, s.live()
	for name, n := range after {
		tenant := n.Labels[v1alpha1.LabelTenant]
		effect := n.Annotations[v1alpha1.AnnotationTaintEffect]
		require.Equal(s, tenant != "", n.Annotations[v1alpha1.AnnotationReservation] != "", "law 1: label and annotation of %s", name)
		require.Equal(s, tenant != "", slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == v1alpha1.TaintKey && t.Value == tenant && string(t.Effect) == effect
		}), "law 1: label and taint of %s", name)
		if s.admins[name] {
			require.True(s, n.Spec.Unschedulable, "law 4: an admin's cordon of %s is gone", name)
		}
		for _, t := range before[name].Spec.Taints {
			if t.Key == "other" {
				require.True(s, slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "other" }), "another's taint of %s is gone", name)
			}
		}
		was := before[name].Labels[v1alpha1.LabelTenant]
		if was != "" && was != tenant {
			for _, p := range s.running() {
				stayed := slices.ContainsFunc(podsBefore, func(b corev1.Pod) bool { return b.UID == p.UID })
				require.False(s, stayed && p.Spec.NodeName == name && p.Namespace == was, "law 2: %s lost the lock of %s under pod %s", name, was, p.Name)
			}
		}
	}
}

// settle lets everything happen that is due, until nothing is written any more.
func (s *simulation) settle() {
	s.fence.broken, s.calm = false, true
	for round := range 40 {
		before := s.versions()
		s.cache.syncNodes()
		s.cache.syncReservations()
		s.allocateOnce()
		for name := range s.live() {
			s.cache.syncNodes()
			s.remember()
			s.nodeOnce(name)
			s.check()
		}
		for _, r := range []string{"r0", "r1", "r2"} {
			s.cache.syncReservations()
			s.statusOnce(r)
		}
		if maps.Equal(before, s.versions()) && round > 4 {
			return
		}
	}
	require.Fail(s, "it never comes to rest")
}

func (s *simulation) versions() map[string]string {
	out := map[string]string{}
	for name, n := range s.live() {
		out[name] = n.ResourceVersion
	}
	var l v1alpha1.ReservationList
	require.NoError(s, s.server.List(context.Background(), &l))
	for _, r := range l.Items {
		out[r.Name] = r.ResourceVersion
	}
	m := &corev1.ConfigMap{}
	_ = s.server.Get(context.Background(), client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: v1alpha1.IndexName}, m)
	out["index"] = m.ResourceVersion
	return out
}

// requireTidy demands that what is claimed is locked, and nothing else bears anything of ours.
func (s *simulation) requireTidy() {
	m := &corev1.ConfigMap{}
	require.NoError(s, s.server.Get(context.Background(), client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: v1alpha1.IndexName}, m))
	index, err := allocate.Parse(m.Data)
	require.NoError(s, err)
	for name, n := range s.live() {
		g, granted := index.Grants[name]
		require.Equal(s, granted, n.Annotations[v1alpha1.AnnotationReservation] != "", "%s: %v", name, g)
		require.Equal(s, allocate.Held, g.Phase, "%s is still %s", name, g.Phase)
		if granted {
			require.Equal(s, g.Reservation, n.Annotations[v1alpha1.AnnotationReservation])
			require.NotEmpty(s, g.Namespaces)
		} else {
			require.Empty(s, reserved(n), "something is left on %s", name)
			require.NotContains(s, n.Labels, v1alpha1.LabelTenant)
		}
		require.Equal(s, s.admins[name], n.Spec.Unschedulable, "law 4: cordon of %s", name)
	}
	var l v1alpha1.ReservationList
	require.NoError(s, s.server.List(context.Background(), &l))
	for _, r := range l.Items {
		require.True(s, r.DeletionTimestamp.IsZero(), "%s does not go", r.Name)
		require.EqualValues(s, len(r.Status.Nodes), r.Status.Reserved)
	}
}

func TestSimulation(t *testing.T) {
	seeds := []uint64{*simulated}
	if *simulated == 0 {
		seeds = nil
		for seed := range uint64(*simulations) {
			seeds = append(seeds, seed+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("-simulation-seed=%d", seed), func(t *testing.T) {
			s := newSimulation(t, seed)
			defer func() {
				if t.Failed() {
					t.Log(strings.Join(s.log[max(0, len(s.log)-60):], "\n"))
				}
			}()
			s.allocateOnce()
			for range 250 {
				s.play("")
			}
			for len(s.running()) > 0 {
				s.endPod()
			}
			s.settle()
			s.requireTidy()
		})
	}
}
