package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// settle is the end of a history: whatever is broken is mended, nobody acts any more, and the operator, woken by
// nothing but what wakes it in a cluster, must come to rest, twice: with the tenants' pods there, and after their end.
func (w *world) settle() {
	w.server.tick++
	w.tell("everything is mended, and nobody acts any more")
	w.calm = true
	for len(w.late) > 0 {
		w.arrive()
	}
	w.fence.broken, w.fence.slow = false, false
	for _, name := range w.server.names(nodes) {
		edit(w.server, nodes, name, func(n *corev1.Node) {
			n.Status.Conditions[0].Status = corev1.ConditionTrue
			known := w.truth.of(n)
			n.Spec.Taints = without(n.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == "ToBeDeletedByClusterAutoscaler" || t.Key == v1alpha1.TaintKey && (!known.ours(t) || known.torn)
			})
		})
	}
	for _, name := range w.server.names(reservations) {
		edit(w.server, reservations, name, func(r *v1alpha1.Reservation) {
			if s := r.Spec.NodeSelector; s != nil {
				s.MatchExpressions = nil
			}
		})
	}
	w.rest()
	w.tell("all pods end")
	for _, name := range w.server.names(pods) {
		w.server.remove(nil, pods, name)
	}
	w.prompt()
	w.rest()
	w.tidy()
}

// rest lets the operator work until nothing is due any more, for some hours (no pod's end takes longer), and then demands
// law 7: at rest, nothing is written, whoever is woken.
func (w *world) rest() {
	r := w.leader()
	for _, key := range r.underWay() {
		r.work(key, 1<<30, fault{at: -1})
	}
	for range 12 {
		w.drain(r)
		w.pass(20 * time.Second)
	}
	for range 8 {
		w.drain(r)
		w.pass(20 * time.Minute)
	}
	w.drain(r)
	before := w.server.writes
	for range 2 {
		r.wake("allocate", 0)
		for _, name := range w.server.names(nodes) {
			r.wake("node/"+name, 0)
		}
		for _, name := range w.server.names(reservations) {
			r.wake("status/"+name, 0)
		}
		w.drain(r)
		w.time = w.time.Add(time.Minute)
	}
	if w.server.writes != before {
		w.violate("law 7", "at rest, %d writes", w.server.writes-before)
	}
}

// prompt demands that no release goes on when, for some seconds, no pod has been there.
func (w *world) prompt() {
	for range 5 {
		w.drain(w.leader())
		w.pass(2 * time.Second)
	}
	for _, name := range w.server.names(nodes) {
		if n := w.server.node(name); marks(n)[2] != "" {
			w.violate("released at once", "node %s has no pods and is still being released", name)
		}
	}
}

// drain works off the queue.
func (w *world) drain(r *replica) {
	plenty := 400 + 4*len(w.nodes)
	r.sync()
	for n := 0; w.broken == nil; n++ {
		keys := r.ready()
		if len(keys) == 0 {
			return
		}
		if n == plenty {
			w.violate("law 7", "the operator does not come to rest: %s", r.queued())
		}
		r.work(keys[0], 1<<30, fault{at: -1})
		r.sync()
	}
}

// pass moves the clock and ends what kubelets end: pods past their deadline that nobody holds.
func (w *world) pass(d time.Duration) {
	w.time = w.time.Add(d)
	w.server.tick++
	for _, name := range w.server.names(pods) {
		p := stored[*corev1.Pod](w.server, pods, name)
		if ending := p.DeletionTimestamp; !ending.IsZero() && !ending.After(w.time) && len(p.Finalizers) == 0 {
			w.server.remove(nil, pods, name)
		}
	}
}

// tidy demands that what is claimed is locked, that nothing else bears anything of ours, and that nothing is stuck.
func (w *world) tidy() {
	if w.broken != nil {
		return
	}
	const law = "in the end"
	for _, name := range w.server.names(nodes) {
		n, known := w.server.node(name), w.truth.of(w.server.node(name))
		g, granted := w.truth.index.Grants[name]
		claimed := slices.ContainsFunc(w.server.names(reservations), func(r string) bool { return claims(w.server.reservation(r), name, n) })
		switch {
		case granted != claimed:
			w.violate(law, "node %s: granted %v, claimed %v", name, granted, claimed)
		case granted:
			r := w.server.reservation(g.Reservation)
			if g.Phase != allocate.Held || r == nil || !lockedFor(n, r) {
				w.violate(law, "node %s is not locked for %s %s: %v %v", name, g.Reservation, g.Phase, marks(n), n.Labels)
			}
		case bears(n) || slices.ContainsFunc(n.Spec.Taints, known.ours):
			w.violate(law, "node %s still bears %v %v %v", name, n.Labels, marks(n), n.Spec.Taints)
		}
		if n.Spec.Unschedulable != (known.cordon == admin) && known.cordon != either {
			w.violate("law 4", "in the end node %s is cordoned: %v, by an admin: %v", name, n.Spec.Unschedulable, known.cordon == admin)
		}
	}
	for _, name := range w.server.names(reservations) {
		r := w.server.reservation(name)
		has := w.indexed(name)
		switch {
		case !r.DeletionTimestamp.IsZero():
			w.violate("law 9", "Reservation %s does not go: %v", name, r.Finalizers)
		case r.Status.ObservedGeneration != r.Generation || !slices.Equal(r.Status.Nodes, has):
			w.violate(law, "the status of %s is of generation %d of %d and names %v of %v", name, r.Status.ObservedGeneration, r.Generation, r.Status.Nodes, has)
		}
	}
}
