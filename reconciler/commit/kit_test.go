package commit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	chain "github.com/reservation-operator/reservation-operator/source"
	"github.com/reservation-operator/reservation-operator/source/fetch"
	"github.com/reservation-operator/reservation-operator/source/forge"
	"github.com/reservation-operator/reservation-operator/test/cluster"
)

// kit is a reconciler at work on the shared API server, and what it did.
type kit struct {
	*Reconciler
	events *events.FakeRecorder
	looks  atomic.Int64
	loads  atomic.Int64
	stop   func()

	// later is added to the clock, in nanoseconds.
	later atomic.Int64

	mu      sync.Mutex
	writes  []string
	reports []string
	logs    []string
	fail    func(o client.Object, trial bool) error
}

// start runs a reconciler until the test ends or stop is called. Its Reservations are settled at once unless the test
// says otherwise.
func start(t *testing.T, changes ...func(*Reconciler)) *kit {
	t.Helper()
	k := &kit{events: events.NewFakeRecorder(1000)}
	mgr, err := ctrl.NewManager(plane.Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Logger:     funcr.New(k.log, funcr.Options{Verbosity: 9}),
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(config, options)
			return k.intercept(c), err
		},
	})
	require.NoError(t, err)
	k.Reconciler = &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: v1alpha1.OperatorNamespace,
		Events: k.events, Reporter: k, Clock: k,
		Chain: chain.Chain{
			Look: func(ctx context.Context, r fetch.Remote) (fetch.Head, error) {
				k.looks.Add(1)
				return fetch.Look(ctx, r)
			},
			Fetch: func(ctx context.Context, r fetch.Remote, h fetch.Head, l fetch.Limits) (*fetch.Commit, error) {
				k.loads.Add(1)
				return fetch.Fetch(ctx, r, h, l)
			},
		},
	}
	for _, change := range changes {
		change(k.Reconciler)
	}
	require.NoError(t, k.SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	k.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(k.stop)
	require.True(t, mgr.GetCache().WaitForCacheSync(ctx))
	return k
}

// Now and Since are the clock's.
func (k *kit) Now() time.Time                  { return time.Now().Add(time.Duration(k.later.Load())) }
func (k *kit) Since(t time.Time) time.Duration { return k.Now().Sub(t) }

func (k *kit) log(prefix, args string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.logs = append(k.logs, prefix+" "+args)
}

// logged returns what was logged.
func (k *kit) logged() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.logs, "\n")
}

// emitted returns the events since the last call.
func (k *kit) emitted() []string {
	var out []string
	for len(k.events.Events) > 0 {
		out = append(out, <-k.events.Events)
	}
	return out
}

// intercept notes every write that is not a dry run.
func (k *kit) intercept(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			u := o.(client.Object)
			trial := len((&client.ApplyOptions{}).ApplyOptions(opts).DryRun) > 0
			if err := k.failing(u, trial); err != nil {
				return err
			}
			if !trial {
				k.note("apply", u)
			}
			return c.Apply(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			k.note("delete", o)
			return c.Delete(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			k.note("patch", o)
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			k.note("patch "+sub+" of", o)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
}

func (k *kit) failing(o client.Object, trial bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail == nil {
		return nil
	}
	return k.fail(o, trial)
}

// failOn has applies and their dry runs (trials) fail; nil lets them through.
func (k *kit) failOn(fail func(o client.Object, trial bool) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail = fail
}

func (k *kit) note(verb string, o client.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if _, ok := o.(*v1alpha1.ReservationSource); ok {
		kind = "ReservationSource"
	}
	k.writes = append(k.writes, fmt.Sprintf("%s %s %s", verb, kind, o.GetName()))
}

// written returns the writes since the last call.
func (k *kit) written() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.writes
	k.writes = nil
	return out
}

// Report is forge.Reporter.
func (k *kit) Report(_ context.Context, _ *v1alpha1.ReservationSource, revision string, state forge.State, text string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reports = append(k.reports, fmt.Sprintf("%s %s: %s", revision, state, text))
	return nil
}

func (k *kit) reported() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.reports)
}

// settling plays the allocation and the nodes: every Reservation gets what it names, until the test ends. hold, if
// not nil, may change a status before it is written.
func settling(t *testing.T, hold func(*v1alpha1.Reservation)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			var all v1alpha1.ReservationList
			if admin.List(ctx, &all) == nil {
				for i := range all.Items {
					settle(ctx, &all.Items[i], hold)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
}

// draining is settling with pods left on one of the nodes, until release is called.
func draining(t *testing.T, node string, pods int32) (release func()) {
	t.Helper()
	done := make(chan struct{})
	settling(t, func(r *v1alpha1.Reservation) {
		select {
		case <-done:
		default:
			r.Status.Releasing = []v1alpha1.ReleasingNode{{Name: node, PodsLeft: pods}}
			r.Status.Conditions[0].Status, r.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonNodesReleasing
		}
	})
	return func() { close(done) }
}

func settle(ctx context.Context, r *v1alpha1.Reservation, hold func(*v1alpha1.Reservation)) {
	before := r.DeepCopy()
	r.Status.ObservedGeneration, r.Status.Reserved, r.Status.Nodes = r.Generation, int32(len(r.Spec.ReservedNodes)), r.Spec.ReservedNodes
	r.Status.Releasing = nil
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, ObservedGeneration: r.Generation})
	if hold != nil {
		hold(r)
	}
	releasing := int32(len(r.Status.Releasing))
	r.Status.Counts = v1alpha1.NodeCounts{Locked: r.Status.Reserved - releasing, Releasing: releasing}
	_ = admin.Status().Patch(ctx, r, client.MergeFrom(before))
}

// repo is a tenants' repository whose files a test writes.
type repo struct {
	*cluster.Repository
	t *testing.T
}

// repository makes one with these files.
func repository(t *testing.T, files map[string]string) repo {
	t.Helper()
	seed := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(seed, "README.md"), []byte("tenants\n"), 0o600))
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(seed, name)), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(seed, name), []byte(text), 0o600))
	}
	r, err := cluster.NewRepository(t.TempDir(), seed)
	require.NoError(t, err)
	return repo{r, t}
}

// commit writes files, removes those with an empty text, and returns the hash and the revision.
func (r repo) commit(message string, files map[string]string) (hash, revision string) {
	r.t.Helper()
	for name, text := range files {
		if text == "" {
			require.NoError(r.t, r.Remove(name))
		} else {
			require.NoError(r.t, r.Write(name, text))
		}
	}
	hash, err := r.Commit(message)
	require.NoError(r.t, err)
	return hash, "main@sha1:" + hash
}

func (r repo) head() string {
	r.t.Helper()
	head, err := r.Head()
	require.NoError(r.t, err)
	return "main@sha1:" + head
}

// follow makes a ReservationSource for a repository; it and what it owns go when the test ends.
func follow(t *testing.T, url string, change func(*v1alpha1.ReservationSource)) *v1alpha1.ReservationSource {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", ",", "", "'", "", "#", "").Replace(t.Name()))
	s := &v1alpha1.ReservationSource{
		ObjectMeta: metav1.ObjectMeta{Name: name[max(0, len(name)-60):]},
		Spec:       v1alpha1.ReservationSourceSpec{URL: url, Interval: metav1.Duration{Duration: 500 * time.Millisecond}},
	}
	s.Name = strings.Trim(s.Name, "-.")
	if change != nil {
		change(s)
	}
	require.NoError(t, admin.Create(context.Background(), s))
	t.Cleanup(func() { cleanUp(t, s) })
	return s
}

func cleanUp(t *testing.T, s *v1alpha1.ReservationSource) {
	ctx := context.Background()
	require.NoError(t, client.IgnoreNotFound(admin.Delete(ctx, s)))
	time.Sleep(50 * time.Millisecond)
	label := client.MatchingLabels{v1alpha1.LabelSource: s.Name}
	require.NoError(t, admin.DeleteAllOf(ctx, &v1alpha1.Reservation{}, label))
}

func get(t require.TestingT, o client.Object, key ...string) bool {
	k := client.ObjectKey{Name: key[len(key)-1]}
	if len(key) == 2 {
		k.Namespace = key[0]
	}
	err := admin.Get(context.Background(), k, o)
	if apierrors.IsNotFound(err) {
		return false
	}
	require.NoError(t, err)
	return true
}

func latest(t require.TestingT, s *v1alpha1.ReservationSource) *v1alpha1.ReservationSource {
	out := &v1alpha1.ReservationSource{}
	require.True(t, get(t, out, s.Name))
	return out
}

func ready(s *v1alpha1.ReservationSource) metav1.Condition {
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func eventually(t *testing.T, f func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, f, 20*time.Second, 20*time.Millisecond)
}

// awaitReady waits until a revision is applied and its nodes have converged.
func awaitReady(t *testing.T, s *v1alpha1.ReservationSource, revision string) *v1alpha1.ReservationSource {
	t.Helper()
	var out *v1alpha1.ReservationSource
	eventually(t, func(c *assert.CollectT) {
		out = latest(c, s)
		require.Equal(c, revision, out.Status.LastAppliedRevision, ready(out).Message)
		require.Equal(c, metav1.ConditionTrue, ready(out).Status, ready(out).Message)
		require.Equal(c, out.Generation, out.Status.ObservedGeneration)
	})
	return out
}

// awaitReason waits until the source is not ready for a reason and says all of these.
func awaitReason(t *testing.T, s *v1alpha1.ReservationSource, reason string, parts ...string) *v1alpha1.ReservationSource {
	t.Helper()
	var out *v1alpha1.ReservationSource
	eventually(t, func(c *assert.CollectT) {
		out = latest(c, s)
		require.Equal(c, reason, ready(out).Reason, ready(out).Message)
		for _, part := range parts {
			require.Contains(c, ready(out).Message, part)
		}
	})
	return out
}

// reservationYAML is a Reservation named like its tenant.
func reservationYAML(tenant string, nodes ...string) string {
	return fmt.Sprintf("apiVersion: scheduling.coreweave.cloud/v1alpha1\nkind: Reservation\nmetadata:\n  name: %s\n"+
		"spec:\n  tenant: %s\n  reservedNodes: [%s]\n", tenant, tenant, strings.Join(nodes, ", "))
}

// tenantYAML is all that a tenant has.
func tenantYAML(tenant string, nodes ...string) string {
	return reservationYAML(tenant, nodes...) + fmt.Sprintf(`---
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota, namespace: %[1]s}
spec: {hard: {cpu: 12000m, memory: 1024Mi}}
---
apiVersion: scheduling.coreweave.cloud/v1alpha1
kind: ReservationBinding
metadata: {name: binding, namespace: %[1]s}
spec: {reservationName: %[1]s, podSelector: {}}
`, tenant)
}
