package sim

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// start is when every world begins. Only the simulation moves its clock.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is one cluster with two replicas of the operator and everybody who acts on it.
type world struct {
	seed     uint64
	time     time.Time
	server   *server
	fence    *fence
	replicas [2]*replica
	// late are writes of processes that are gone, still under way.
	late []lateWrite
	// removers are the nodes from which another controller keeps taking our label.
	removers map[string]bool
	nodes    []string
	truth    *truth
	mutate   func(*parts)
	// calm: nothing happens any more but what the operator does.
	calm bool
	// digest sums up all changes: two histories with the same one are the same.
	digest uint64
	// did counts what the operator did, so that one can see that histories are worth something.
	did    Deeds
	broken *Violation
	story  *[]string
}

// newWorld makes a world of three to six nodes, which the seed names.
func newWorld(seed uint64, mutate func(*parts)) *world {
	w := emptyWorld(seed, mutate)
	d := roll(seed)
	for i := range 3 + d.IntN(4) {
		w.nodes = append(w.nodes, fmt.Sprintf("n%d", i))
		w.join(d, w.nodes[i])
	}
	w.open()
	return w
}

func emptyWorld(seed uint64, mutate func(*parts)) *world {
	w := &world{seed: seed, time: start, removers: map[string]bool{}, mutate: mutate}
	w.server = newServer(w.Now)
	w.truth = newTruth(w)
	w.server.observe = w.observe
	w.fence = &fence{world: w}
	return w
}

// open starts the operator.
func (w *world) open() {
	w.replicas = [2]*replica{newReplica(w, "a"), newReplica(w, "b")}
	w.replicas[0].lead()
}

// Now implements clock.PassiveClock.
func (w *world) Now() time.Time { return w.time }

// Since implements clock.PassiveClock.
func (w *world) Since(t time.Time) time.Duration { return w.time.Sub(t) }

func (w *world) leader() *replica {
	if w.replicas[1].leads {
		return w.replicas[1]
	}
	return w.replicas[0]
}

// join makes a node as the autoscaler does, or a new machine under an old name.
func (w *world) join(d dice, name string) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": d.one("a", "b"), corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	if d.in(3) {
		n.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	w.server.put(nil, n)
}

// observe is told of every change: it checks what the operator did, and tells who watches.
func (w *world) observe(by *task, k kind, before, after client.Object) {
	h := fnv.New64a()
	subject := after
	if after == nil {
		subject = before
	}
	fmt.Fprint(h, w.server.tick, k, keyOf(subject), subject.GetResourceVersion(), after == nil)
	w.digest += h.Sum64()
	if k == pods {
		was, _ := before.(*corev1.Pod)
		is, _ := after.(*corev1.Pod)
		for _, r := range w.replicas {
			if r != nil {
				r.pods.changed(was, is)
			}
		}
	}
	w.truth.changed(by, k, before, after)
	if k == configs {
		w.leader().wake("allocate", 0)
	}
	if w.story != nil && by != nil {
		w.tell("    %s writes %s %s", by, resources[k], describe(subject, after == nil))
	}
}

// violate notes that a law was broken; the first time counts.
func (w *world) violate(law, text string, args ...any) {
	if w.broken == nil {
		w.broken = &Violation{Law: law, Text: fmt.Sprintf(text, args...), History: w.seed}
	}
}

func (w *world) tell(text string, args ...any) {
	if w.story != nil {
		*w.story = append(*w.story, fmt.Sprintf(text, args...))
	}
}

// close ends all tasks.
func (w *world) close() {
	for _, r := range w.replicas {
		for _, key := range slices.Sorted(maps.Keys(r.tasks)) {
			r.tasks[key].kill()
		}
	}
	for _, t := range w.late {
		t.kill()
	}
}

func without[T any](of []T, drop func(T) bool) []T { return slices.DeleteFunc(slices.Clone(of), drop) }
