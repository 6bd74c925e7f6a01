package node_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
	"github.com/reservation-operator/reservation-operator/reconciler/node"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// live is the API server that the tests share; it starts with the first test that needs it.
var live struct {
	once  sync.Once
	err   error
	plane *controlplane.ControlPlane
	admin client.WithWatch
}

var scheme = runtime.NewScheme()

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	code := m.Run()
	if live.plane != nil {
		if err := live.plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// server returns an administrator's client of the API server.
func server(t *testing.T) client.WithWatch {
	t.Helper()
	live.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		if live.plane, live.err = controlplane.Start(ctx, controlplane.Options{}); live.err != nil {
			return
		}
		if live.err = live.plane.Apply(ctx, "../../config/crd"); live.err != nil {
			return
		}
		live.admin, live.err = client.NewWithWatch(live.plane.Config, client.Options{Scheme: scheme})
	})
	require.NoError(t, live.err)
	return live.admin
}

// eventually repeats checks until all of them hold.
func eventually(t *testing.T, check func(*assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, time.Minute, 50*time.Millisecond)
}

// world is one node, one Reservation and one tenant of the test's own, and a Reconciler that reads and writes live.
type world struct {
	*testing.T
	admin client.WithWatch
	// name is that of the node, tenant that of the tenant, its namespace and its Reservation.
	name, tenant string
	view         *allocate.View
	ledger       *ledger.Ledger
	clock        *clocktesting.FakePassiveClock
	events       *events.FakeRecorder
	pods         *watched
	node.Reconciler

	mu      sync.Mutex
	version int64
	joined  []string // the nodes that were made
	calls   []string
	// before is called before each write of the Reconciler, with what it is about to do.
	before func(call string)
}

// watched is a PodWatcher that only remembers.
type watched struct {
	mu    sync.Mutex
	nodes map[string]bool
}

func (w *watched) Watch(node string)  { w.set(node, true) }
func (w *watched) Forget(node string) { w.set(node, false) }
func (w *watched) set(node string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[node] = on
}

func newWorld(t *testing.T, change ...func(*v1alpha1.ReservationSpec)) *world {
	t.Helper()
	w := &world{
		T: t, admin: server(t), view: &allocate.View{}, ledger: &ledger.Ledger{}, events: events.NewFakeRecorder(100),
		pods: &watched{nodes: map[string]bool{}}, clock: clocktesting.NewFakePassiveClock(time.Now()),
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	require.NoError(t, w.admin.Create(t.Context(), namespace))
	w.tenant, w.name = namespace.Name, namespace.Name+"-node"
	w.Reconciler = node.Reconciler{
		Client: w.counted(w.admin), Live: w.admin, Pods: w.pods, View: w.view, Ledger: w.ledger, Events: w.events, Clock: w.clock,
	}
	w.reserve(w.tenant, change...)
	return w
}

// reserve makes a Reservation of a tenant, named like it, that wants the node.
func (w *world) reserve(tenant string, change ...func(*v1alpha1.ReservationSpec)) *v1alpha1.Reservation {
	w.Helper()
	r := reservation(tenant, change...)
	r.Name, r.Spec.ReservedNodes = tenant, []string{w.name}
	require.NoError(w, w.admin.Create(w.Context(), r))
	w.Cleanup(func() { _ = w.admin.Delete(context.WithoutCancel(w.Context()), r) })
	return r
}

// counted notes every write that goes through the client.
func (w *world) counted(c client.WithWatch) client.WithWatch {
	note := func(verb string, o client.Object) {
		kind := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1."))
		call := verb + " " + kind + " " + o.GetName()
		w.mu.Lock()
		before := w.before
		w.calls = append(w.calls, call)
		w.mu.Unlock()
		if before != nil {
			before(call)
		}
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			note("patch", o)
			return c.Patch(ctx, o, p, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			note("update", o)
			return c.Update(ctx, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			note("create", o)
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			note("delete", o)
			return c.Delete(ctx, o, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			note(sub, o)
			return c.SubResource(sub).Create(ctx, o, s, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			note("patch "+sub, o)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			note("update "+sub, o)
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	})
}

// wrote returns what was written since it was last asked.
func (w *world) wrote() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

// join makes the node.
func (w *world) join(change ...func(*corev1.Node)) *corev1.Node {
	w.Helper()
	n := controlplane.Node(w.name, map[string]string{"pool": "h200"})
	for _, f := range change {
		f(n)
	}
	require.NoError(w, w.admin.Create(w.Context(), n))
	w.joined = append(w.joined, n.Name)
	w.Cleanup(func() { _ = w.admin.Delete(context.WithoutCancel(w.Context()), n) })
	return n
}

// turnTo makes another node the one that the world is about. Grants go to every node that was made.
func (w *world) turnTo(name string) { w.name = name }

func (w *world) get() *corev1.Node {
	w.Helper()
	n := &corev1.Node{}
	require.NoError(w, w.admin.Get(w.Context(), client.ObjectKey{Name: w.name}, n))
	return n
}

// edit changes the node as somebody else would.
func (w *world) edit(change func(*corev1.Node)) {
	w.Helper()
	for {
		n := w.get()
		change(n)
		err := w.admin.Update(context.WithoutCancel(w.Context()), n)
		if !apierrors.IsConflict(err) {
			require.NoError(w, err)
			return
		}
	}
}

// grant publishes an index in which the node, and every other that was made, is granted so, or not at all.
func (w *world) grant(enforced bool, g ...allocate.Grant) {
	w.version++
	grants := map[string]allocate.Grant{}
	if len(g) > 0 {
		for _, name := range append(w.joined, w.name) {
			grants[name] = g[0]
		}
	}
	w.view.Publish(allocate.Decision{Index: allocate.Index{Version: w.version, Grants: grants}}, doubt(enforced))
}

// doubt is what View.Publish is told of a fence that stands or does not.
func doubt(enforced bool) string {
	if enforced {
		return ""
	}
	return "look there"
}

func (w *world) held() allocate.Grant {
	return allocate.Grant{Reservation: w.tenant, Namespaces: []string{w.tenant}}
}

func (w *world) releasing() allocate.Grant {
	return allocate.Grant{Reservation: w.tenant, Phase: allocate.Releasing}
}

func (w *world) freed() allocate.Grant {
	return allocate.Grant{Reservation: w.tenant, Phase: allocate.Freed}
}

// reconcile reconciles the node once.
func (w *world) reconcile() ctrl.Result {
	w.Helper()
	result, err := w.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: w.name}})
	require.NoError(w, err)
	return result
}

// lock brings the node to where the tenant holds it, and forgets how.
func (w *world) lock() {
	w.Helper()
	w.grant(true, w.held())
	w.reconcile()
	require.Equal(w, w.tenant, w.get().Labels[v1alpha1.LabelTenant])
	w.wrote()
}

// run makes a running pod of the tenant on the node.
func (w *world) run(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	w.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: w.name, Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
			AutomountServiceAccountToken: ptr.To(false),
		},
	}
	for _, f := range change {
		f(p)
	}
	require.NoError(w, w.admin.Create(w.Context(), p))
	w.Cleanup(func() {
		_ = w.admin.Delete(context.WithoutCancel(w.Context()), p, client.GracePeriodSeconds(0))
	})
	w.become(p, corev1.PodRunning)
	return p
}

// become gives a pod a phase, as its kubelet would.
func (w *world) become(p *corev1.Pod, phase corev1.PodPhase) {
	w.Helper()
	before := p.DeepCopy()
	p.Status.Phase = phase
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	require.NoError(w, w.admin.Status().Patch(w.Context(), p, client.MergeFrom(before)))
}

// end removes a pod at once, as its kubelet would when its containers have ended.
func (w *world) end(p *corev1.Pod) {
	w.Helper()
	require.NoError(w, w.admin.Delete(context.WithoutCancel(w.Context()), p, client.GracePeriodSeconds(0)))
}

func (w *world) said() ledger.Report { return w.ledger.Get(w.name) }

// reserved are the node's annotations of ours.
func reserved(n *corev1.Node) map[string]string {
	out := maps.Clone(n.Annotations)
	maps.DeleteFunc(out, func(key, _ string) bool { return !strings.HasPrefix(key, v1alpha1.Group) })
	return out
}

// reading is a client whose cache holds an old state of one node, or knows no Reservation yet.
type reading struct {
	client.WithWatch
	stale   *corev1.Node
	ignores bool
}

func (r reading) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o := o.(type) {
	case *corev1.Node:
		if r.stale != nil && key.Name == r.stale.Name {
			r.stale.DeepCopyInto(o)
			return nil
		}
	case *v1alpha1.Reservation:
		if r.ignores {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "reservations"}, key.Name)
		}
	}
	return r.WithWatch.Get(ctx, key, o, opts...)
}
