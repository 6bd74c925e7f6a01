package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
	"github.com/reservation-operator/reservation-operator/reconciler/node"
)

// parts are what the reconcilers of one process are made of. A mutation changes them before that.
type parts struct {
	world  *world
	Client client.Client
	Live   client.Reader
	Fence  allocate.Fence
	Pods   node.PodWatcher
	View   *allocate.View
	Ledger *ledger.Ledger
}

// replica is one operator process: its caches, its queue and, while it leads, its reconcilers. The queue is woken by
// what the real one is woken by (SetupWithManager of each reconciler).
type replica struct {
	name   string
	world  *world
	leads  bool
	caches [bindings + 1]*cache
	// due holds when each key of the queue may be worked on.
	due   map[string]time.Time
	tasks map[string]*task
	pods  *podWatch

	view     *allocate.View
	allocate *allocate.Reconciler
	status   *allocate.StatusReconciler
	node     *node.Reconciler
}

func newReplica(w *world, name string) *replica {
	r := &replica{name: name, world: w}
	r.boot()
	return r
}

// boot is a new process that does not lead: all that it has are caches that have just been filled.
func (r *replica) boot() {
	r.leads, r.due, r.tasks = false, map[string]time.Time{}, map[string]*task{}
	r.pods = &podWatch{tasks: r.tasks, watched: map[string]bool{}, told: map[string]bool{}}
	for k := range r.caches {
		r.caches[k] = &cache{kind: kind(k), server: r.world.server, objects: map[string]client.Object{}, changed: func(client.Object, client.Object) {}}
		r.caches[k].relist()
	}
	r.caches[nodes].changed = r.nodeChanged
	r.caches[reservations].changed = r.reservationChanged
	r.caches[bindings].changed = func(client.Object, client.Object) { r.wake("allocate", 0) }
}

// lead starts the reconcilers.
func (r *replica) lead() {
	r.leads = true
	c := cachedClient{replica: r}
	p := parts{world: r.world, Client: c, Live: liveReader{c}, Fence: r.world.fence, Pods: r.pods, View: &allocate.View{}, Ledger: &ledger.Ledger{}}
	if r.world.mutate != nil {
		r.world.mutate(&p)
	}
	r.view = p.View
	r.allocate = &allocate.Reconciler{
		Client: p.Client, Live: p.Live, Namespace: v1alpha1.OperatorNamespace, Fence: p.Fence, Ledger: p.Ledger, View: p.View, Clock: r.world,
	}
	r.status = &allocate.StatusReconciler{Client: p.Client, View: p.View, Ledger: p.Ledger}
	r.node = &node.Reconciler{
		Client: p.Client, Live: p.Live, Pods: p.Pods, View: p.View, Ledger: p.Ledger, Events: unheard{}, Clock: r.world,
	}
	p.View.Watch(func(name string) { r.wake("node/"+name, 0) }, func(name string) { r.wake("status/"+name, 0) })
	p.Ledger.Watch(func(name string) {
		if p.Ledger.Get(name).Drained {
			r.wake("allocate", 0)
		}
		if grant, granted, _, _ := p.View.Grant(name); granted {
			r.wake("status/"+grant.Reservation, 0)
		}
	})
	r.wake("allocate", 0)
	for _, c := range r.caches {
		for _, name := range c.names() {
			c.changed(nil, c.objects[name])
		}
	}
}

// wake puts a key into the queue, due after a while.
func (r *replica) wake(key string, after time.Duration) {
	due := r.world.Now().Add(after)
	if before, queued := r.due[key]; r.leads && (!queued || due.Before(before)) {
		r.due[key] = due
	}
}

// ready returns the keys that may be worked on, sorted.
func (r *replica) ready() []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(r.due)) {
		if !r.due[key].After(r.world.Now()) {
			out = append(out, key)
		}
	}
	return out
}

// work lets a key's task make so many requests; the task begins if it is not under way.
func (r *replica) work(key string, requests int, f fault) {
	t := r.tasks[key]
	if t == nil {
		t = newTask(r, key)
		r.tasks[key] = t
		delete(r.due, key)
		t.start(r.reconciler(t.what))
	}
	t.fault = f
	t.run(requests)
	if !t.done {
		return
	}
	delete(r.tasks, key)
	switch {
	case t.err != nil:
		r.wake(key, time.Second)
	case t.result.RequeueAfter > 0:
		r.wake(key, t.result.RequeueAfter)
	}
}

func (r *replica) reconciler(what string) func(context.Context, ctrl.Request) (ctrl.Result, error) {
	switch what {
	case "allocate":
		return r.allocate.Reconcile
	case "status":
		return r.status.Reconcile
	}
	return r.node.Reconcile
}

// stop ends the process at once. One of its writes may be under way; it is returned.
func (r *replica) stop(d dice) *task {
	var last *task
	for _, key := range slices.Sorted(maps.Keys(r.tasks)) {
		t := r.tasks[key]
		if t.writing && last == nil && d.in(2) {
			t.last = true
			last = t
			continue
		}
		t.kill()
	}
	r.boot()
	return last
}

func (r *replica) nodeChanged(before, after client.Object) {
	was, _ := before.(*corev1.Node)
	is, _ := after.(*corev1.Node)
	name := objectName(before, after)
	shows := was == nil || is == nil || allocate.Shows(was, is)
	if r.view != nil {
		if grant, granted, _, _ := r.view.Grant(name); granted && shows {
			r.wake("status/"+grant.Reservation, 0)
		}
	}
	for _, n := range []*corev1.Node{was, is} {
		if n != nil && shows {
			if holder := n.Annotations[v1alpha1.AnnotationReservation]; holder != "" {
				r.wake("status/"+holder, 0)
			}
		}
	}
	if was == nil || is == nil || was.UID != is.UID || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		unreachable(was) != unreachable(is) || !lock.Same(was, is) {
		r.wake("node/"+name, 0)
	}
	if was == nil || is == nil || allocate.Concerns(was, is, func() (allocate.Grant, *v1alpha1.Reservation) {
		if r.view == nil {
			return allocate.Grant{}, nil
		}
		grant, _, _, _ := r.view.Grant(name)
		holder, _ := r.caches[reservations].objects[grant.Reservation].(*v1alpha1.Reservation)
		return grant, holder
	}) {
		r.wake("allocate", 0)
	}
}

func (r *replica) reservationChanged(before, after client.Object) {
	name := objectName(before, after)
	if before != nil && after != nil {
		torn := controllerutil.ContainsFinalizer(before, v1alpha1.FinalizerRelease) && !controllerutil.ContainsFinalizer(after, v1alpha1.FinalizerRelease)
		was, is := before.(*v1alpha1.Reservation), after.(*v1alpha1.Reservation)
		if !slices.Equal(was.Finalizers, is.Finalizers) || !equality.Semantic.DeepEqual(was.Status, is.Status) {
			r.wake("status/"+name, 0)
		}
		if before.GetGeneration() == after.GetGeneration() && before.GetUID() == after.GetUID() && !torn && before.GetDeletionTimestamp().IsZero() == after.GetDeletionTimestamp().IsZero() {
			return
		}
	}
	r.wake("allocate", 0)
	r.wake("status/"+name, 0)
	if r.view != nil {
		for _, node := range r.view.Nodes(name) {
			r.wake("node/"+node, 0)
		}
	}
}

func objectName(before, after client.Object) string {
	if after != nil {
		return after.GetName()
	}
	return before.GetName()
}

// sync brings everything that the process knows up to date.
func (r *replica) sync() {
	for _, c := range r.caches {
		c.merge(c.behind())
	}
	r.deliver()
}

// deliver passes on what the watches of pods have to tell.
func (r *replica) deliver() {
	for _, name := range r.pods.tell() {
		r.wake("node/"+name, 0)
	}
}

// unheard takes events that nobody reads.
type unheard struct{}

// Eventf implements events.EventRecorder.
func (unheard) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func unreachable(n *corev1.Node) bool {
	off := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	return !off && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}

// queued lists the queue, for a violation's story.
func (r *replica) queued() string { return strings.Join(slices.Sorted(maps.Keys(r.due)), " ") }

// underWay are the keys of the tasks that have stopped in the middle.
func (r *replica) underWay() []string { return slices.Sorted(maps.Keys(r.tasks)) }
