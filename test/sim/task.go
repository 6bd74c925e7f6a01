package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// task is one call of a reconciler, which stops before each request it makes until it is told to go on. So anything
// may happen between what it read and what it writes. Only one task runs at a time.
type task struct {
	replica *replica
	// what is allocate, node or status; name is the key that is reconciled.
	what, name string
	resume     chan int
	stopped    chan struct{}
	// left is how many requests it may still make before it stops again.
	left int
	done bool
	// dead: its process was killed, so nothing that it asks for arrives. last: the process is dead but for one write
	// that is under way.
	dead, last bool
	// writing says that it stopped before a write, or before requests that it makes at once.
	writing bool
	fault   fault
	result  ctrl.Result
	err     error
	saw     sight
}

// sight is what a task has read: what it does is judged by it, not by what it could not know.
type sight struct {
	// tick is when it began, and grant what its process held then for the one of its node.
	tick  int64
	grant allocate.Grant
	// reservations are those that it read from its cache, and cached the nodes.
	reservations map[string]*v1alpha1.Reservation
	cached       map[string]*corev1.Node
	// node is the Node that it read past its cache, and pods those that it listed on it, at the tick listed.
	node   *corev1.Node
	pods   map[types.UID]*corev1.Pod
	listed int64
}

// fault is something that goes wrong with one of a task's requests.
type fault struct {
	// at is which of its requests it strikes; -1 is none. Requests made at once are struck or not by their names.
	at int
	// arrived: the request did, and only its answer is lost.
	arrived bool
	seed    uint64
}

var (
	errDead  = errors.New("the process is gone")
	errFault = errors.New("connection reset by peer")
)

type taskKey struct{}

// deadline-less context of all tasks, with a logger that says nothing.
var quiet = logf.IntoContext(context.Background(), logr.Discard())

func taskOf(ctx context.Context) *task {
	t, _ := ctx.Value(taskKey{}).(*task)
	if t == nil {
		panic("a request without its task's context")
	}
	return t
}

func newTask(r *replica, key string) *task {
	what, name, _ := strings.Cut(key, "/")
	var grant allocate.Grant
	if r.view != nil {
		grant, _, _, _ = r.view.Grant(name)
	}
	return &task{
		replica: r, what: what, name: name, resume: make(chan int), stopped: make(chan struct{}), fault: fault{at: -1},
		saw: sight{
			tick: r.world.server.tick, grant: grant,
			reservations: map[string]*v1alpha1.Reservation{}, cached: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{},
		},
	}
}

func (t *task) key() string { return strings.TrimSuffix(t.what+"/"+t.name, "/") }

// start begins the task, which stops before its first request.
func (t *task) start(reconcile func(context.Context, ctrl.Request) (ctrl.Result, error)) {
	ctx := context.WithValue(quiet, taskKey{}, t)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				t.replica.world.violate("no panic", "%s: %v\n%s", t.key(), p, debug.Stack())
			}
			t.done = true
			t.stopped <- struct{}{}
		}()
		t.left = <-t.resume
		t.result, t.err = reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: t.name}})
	}()
}

// run lets the task make so many requests and returns when it has stopped or ended.
func (t *task) run(requests int) {
	if !t.done {
		t.resume <- requests
		<-t.stopped
	}
}

// kill ends the task: whatever it still asks for fails.
func (t *task) kill() {
	t.dead = true
	t.run(0)
}

// gate is called before each request, but for those that are made at once with others.
func (t *task) gate(write bool) error {
	for t.left == 0 && !t.dead {
		if t.last {
			t.dead = true
			break
		}
		t.writing = write
		t.stopped <- struct{}{}
		t.left = <-t.resume
	}
	if t.dead {
		return errDead
	}
	t.left--
	t.replica.world.server.tick++
	return nil
}

// strikes reports whether the fault of the task strikes this request, and counts requests down to it.
func (t *task) strikes() bool {
	t.fault.at--
	return t.fault.at == -1
}

// strikesOne is the same for one of several requests that are made at once.
func (t *task) strikesOne(name string) bool {
	return t.fault.at >= 0 && mix(t.fault.seed, hash(name))%4 == 0
}

func (t *task) String() string { return fmt.Sprintf("%s of %s", t.key(), t.replica.name) }
