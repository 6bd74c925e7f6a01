package allocate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

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
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
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

// cluster is an API server with no Node and no Reservation but the test's own, an operator's namespace, and what
// decides about nodes and acts on it. Nothing runs before start.
type cluster struct {
	*testing.T
	admin     client.WithWatch
	namespace string
	view      *allocate.View
	ledger    *ledger.Ledger

	mu    sync.Mutex
	calls []string
	// fence is what the fence answers; nil is that it stands.
	fence error
	// before is called before each write, with what is about to be done.
	before func(call string)
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, admin: server(t), view: &allocate.View{}, ledger: &ledger.Ledger{}}
	c.clear()
	t.Cleanup(c.clear)
	c.namespace = c.makeNamespace("operator-")
	return c
}

// clear removes what the tests make cluster-wide.
func (c *cluster) clear() {
	ctx := context.WithoutCancel(c.Context())
	var reservations v1alpha1.ReservationList
	require.NoError(c, c.admin.List(ctx, &reservations))
	for _, r := range reservations.Items {
		require.NoError(c, client.IgnoreNotFound(c.admin.Patch(ctx, &r, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))))
	}
	require.NoError(c, c.admin.DeleteAllOf(ctx, &v1alpha1.Reservation{}))
	require.NoError(c, c.admin.DeleteAllOf(ctx, &corev1.Node{}))
}

func (c *cluster) makeNamespace(prefix string) string {
	c.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	require.NoError(c, c.admin.Create(c.Context(), namespace))
	return namespace.Name
}

func (c *cluster) note(call string) {
	c.mu.Lock()
	before := c.before
	c.calls = append(c.calls, call)
	c.mu.Unlock()
	if before != nil {
		before(call)
	}
}

// did returns what was written and proven since it was last asked.
func (c *cluster) did() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

// Await makes the cluster a Fence.
func (c *cluster) Await(_ context.Context, version int64) error {
	c.note(fmt.Sprintf("prove %d", version))
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fence
}

func (c *cluster) stand(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fence = err
}

// counted notes every write that goes through the client.
func (c *cluster) counted(w client.WithWatch) client.WithWatch {
	name := func(o client.Object) string {
		return strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1."), "*v1alpha1.")) + " " + o.GetName()
	}
	return interceptor.NewClient(w, interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			c.note("patch " + name(o))
			return w.Patch(ctx, o, p, opts...)
		},
		Update: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			c.note("update " + name(o))
			return w.Update(ctx, o, opts...)
		},
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			c.note("create " + name(o))
			return w.Create(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			c.note("patch " + name(o) + " " + sub)
			return w.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
}

// reconciler returns a worker that reads and writes live, without a manager.
func (c *cluster) reconciler() *allocate.Reconciler {
	return &allocate.Reconciler{
		Client: c.counted(c.admin), Live: c.admin, Namespace: c.namespace, Fence: c, Ledger: c.ledger, View: c.view, Clock: clock.RealClock{},
	}
}

// start runs allocation and, unless told not to, the locking of nodes. It is stopped with the test.
func (c *cluster) start(parts ...string) {
	c.Helper()
	mgr, err := ctrl.NewManager(live.plane.Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(c, err)
	typed, err := kubernetes.NewForConfig(live.plane.Config)
	require.NoError(c, err)
	cached, err := client.NewWithWatch(live.plane.Config, client.Options{Scheme: scheme, Cache: &client.CacheOptions{
		Reader: mgr.GetCache(), DisableFor: []client.Object{&corev1.Pod{}},
	}})
	require.NoError(c, err)
	counted, apiReader := c.counted(cached), mgr.GetAPIReader()
	require.NoError(c, (&allocate.Reconciler{
		Client: counted, Live: apiReader, Namespace: c.namespace, Fence: c, Ledger: c.ledger, View: c.view, Clock: clock.RealClock{},
	}).SetupWithManager(mgr))
	require.NoError(c, (&allocate.StatusReconciler{Client: counted, View: c.view, Ledger: c.ledger}).SetupWithManager(mgr))
	if !slices.Contains(parts, "without nodes") {
		watcher := node.NewWatcher(typed)
		require.NoError(c, mgr.Add(watcher))
		require.NoError(c, (&node.Reconciler{
			Client: counted, Live: apiReader, Pods: watcher, View: c.view, Ledger: c.ledger,
			Events: events.NewFakeRecorder(10000), Clock: clock.RealClock{},
		}).SetupWithManager(mgr, watcher))
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	c.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			assert.NoError(c, err)
		case <-time.After(20 * time.Second):
			assert.Fail(c, "the manager does not stop")
		}
	})
}

// join makes free nodes.
func (c *cluster) join(names ...string) {
	c.Helper()
	for _, name := range names {
		require.NoError(c, c.admin.Create(c.Context(), controlplane.Node(name, map[string]string{"hardware-pool": "a"})))
	}
}

func (c *cluster) node(name string) *corev1.Node {
	n := &corev1.Node{}
	if err := c.admin.Get(context.WithoutCancel(c.Context()), client.ObjectKey{Name: name}, n); err != nil {
		return &corev1.Node{}
	}
	return n
}

// tenantOf is whose lock a node bears.
func (c *cluster) tenantOf(name string) string { return c.node(name).Labels[v1alpha1.LabelTenant] }

// reserve makes a Reservation of a tenant that is named like it.
func (c *cluster) reserve(name string, nodes ...string) *v1alpha1.Reservation {
	c.Helper()
	r := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ReservationSpec{Tenant: name, ReservedNodes: append([]string{}, nodes...)},
	}
	require.NoError(c, c.admin.Create(c.Context(), r))
	return r
}

func (c *cluster) reservation(name string) *v1alpha1.Reservation {
	r := &v1alpha1.Reservation{}
	if err := c.admin.Get(context.WithoutCancel(c.Context()), client.ObjectKey{Name: name}, r); err != nil {
		return &v1alpha1.Reservation{}
	}
	return r
}

// change changes a Reservation as a user would.
func (c *cluster) change(name string, change func(*v1alpha1.Reservation)) {
	c.Helper()
	eventually(c.T, func(t *assert.CollectT) {
		r := c.reservation(name)
		change(r)
		assert.NoError(t, c.admin.Update(c.Context(), r))
	})
}

// rename changes which nodes a Reservation names.
func (c *cluster) rename(name string, nodes ...string) {
	c.Helper()
	c.change(name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = append([]string{}, nodes...) })
}

// stored is the index ConfigMap.
func (c *cluster) stored() *corev1.ConfigMap {
	m := &corev1.ConfigMap{}
	_ = c.admin.Get(context.WithoutCancel(c.Context()), client.ObjectKey{Namespace: c.namespace, Name: v1alpha1.IndexName}, m)
	return m
}

func (c *cluster) index() allocate.Index {
	c.Helper()
	index, err := allocate.Parse(c.stored().Data)
	require.NoError(c, err)
	return index
}

// run makes a pod of a namespace on a node. It is there until it is removed.
func (c *cluster) run(namespace, name, node string) *corev1.Pod {
	c.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}, AutomountServiceAccountToken: ptr.To(false),
		},
	}
	require.NoError(c, c.admin.Create(c.Context(), p))
	c.Cleanup(func() { _ = c.admin.Delete(context.WithoutCancel(c.Context()), p, client.GracePeriodSeconds(0)) })
	return p
}

func (c *cluster) end(p *corev1.Pod) {
	c.Helper()
	require.NoError(c, c.admin.Delete(c.Context(), p, client.GracePeriodSeconds(0)))
}

// settle waits until nothing has been written or proven for a while, and forgets what was.
func (c *cluster) settle() {
	c.Helper()
	for quiet := 0; quiet < 8; quiet++ {
		if len(c.did()) > 0 {
			quiet = 0
		}
		time.Sleep(100 * time.Millisecond)
	}
}
