package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// operatorActs are what the operator's processes, their caches and their fence do.
var operatorActs = []act{
	{"due", 300, func(w *world, d dice) string {
		key, any := pick(d, slices.Concat(w.leader().ready(), w.leader().underWay()))
		if !any {
			return "nothing"
		}
		return w.work(d, key)
	}},
	{"allocate", 40, func(w *world, d dice) string { return w.work(d, "allocate") }},
	{"node", 120, func(w *world, d dice) string { return w.work(d, "node/"+w.aNode(d)) }},
	{"status", 15, func(w *world, d dice) string { return w.work(d, "status/"+aReservation(d)) }},
	{"cache", 150, (*world).moveCache},
	{"pod watch", 30, func(w *world, d dice) string {
		r := w.leader()
		if d.in(6) {
			r.pods.restart()
			return "all watches of pods begin anew"
		}
		r.deliver()
		return "the watches of pods tell"
	}},
	{"fence", 35, func(w *world, d dice) string {
		switch {
		case d.in(15), w.fence.broken && d.in(2):
			w.fence.broken = !w.fence.broken
			return fmt.Sprint("broken: ", w.fence.broken)
		case d.in(12), w.fence.slow && d.in(3):
			w.fence.slow = !w.fence.slow
			return fmt.Sprint("slow: ", w.fence.slow)
		}
		w.fence.look()
		return fmt.Sprint("enforces version ", w.fence.index.Version)
	}},
	{"clock", 40, func(w *world, d dice) string {
		by, _ := pick(d, []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, time.Hour})
		w.time = w.time.Add(by)
		return "moves by " + by.String()
	}},
	{"crash", 7, func(w *world, d dice) string {
		r := w.leader()
		w.stop(r, d)
		if d.in(2) {
			r.lead()
			return "of " + r.name + ", which starts again"
		}
		w.other(r).lead()
		return "of " + r.name + "; the other leads"
	}},
	{"late write", 10, func(w *world, d dice) string {
		if len(w.late) == 0 {
			return "none"
		}
		return "of a process that is gone: " + w.arrive()
	}},
	{"no index", 3, func(w *world, d dice) string {
		w.time = w.time.Add(time.Minute) // nobody deletes it twice in a second
		w.server.remove(nil, configs, indexKey)
		return "somebody deletes it"
	}},
}

// work lets the leader work at a key, to the end or for some requests; now and then one of them fails.
func (w *world) work(d dice, key string) string {
	requests := 1 << 30
	if d.in(3) {
		requests = 1 + d.IntN(6)
	}
	f := fault{at: -1}
	if d.in(25) {
		f = fault{at: d.IntN(2), arrived: d.in(2), seed: d.Uint64()}
	}
	r := w.leader()
	r.work(key, requests, f)
	if t := r.tasks[key]; t != nil {
		return fmt.Sprintf("%s of %s stops after %d requests", key, r.name, requests)
	}
	return fmt.Sprintf("%s of %s", key, r.name)
}

func (w *world) stop(r *replica, d dice) {
	if last := r.stop(d); last != nil {
		w.late = append(w.late, lateWrite{last, w.truth.writings})
	}
}

// lateWrite is the write that a process which is gone left under way.
type lateWrite struct {
	*task
	// writings is how often the index had changed then. A write to a node is not believed to arrive after another, nor
	// one to the index after two: the request of a process that is gone lives for milliseconds, its successor's proofs
	// and lists do not.
	writings int
}

// arrive lets the oldest late write arrive.
func (w *world) arrive() string {
	t := w.late[0]
	w.late = w.late[1:]
	if limit := map[string]int{"allocate": 1}[t.what]; w.truth.writings <= t.writings+limit {
		t.run(1)
	}
	t.kill()
	return t.key()
}

func (w *world) other(r *replica) *replica {
	i := slices.Index(w.replicas[:], r)
	return w.replicas[1-i]
}

// moveCache brings a cache of one of the replicas nearer to what is stored, in one of the ways in which watches do.
func (w *world) moveCache(d dice) string {
	r := w.leader()
	if d.in(6) {
		r = w.other(r)
	}
	c := r.caches[[]kind{nodes, nodes, nodes, reservations, reservations, reservations, bindings}[d.IntN(7)]]
	how := ""
	switch i := d.IntN(20); {
	case i < 5:
		c.advance(1)
		how = "takes the next change"
	case i < 12:
		c.merge(c.behind())
		how = "catches up"
	case i < 16:
		c.merge(1 + d.IntN(3))
		how = "takes some changes as one"
	case i < 18:
		c.relist()
		how = "has lost events and reads all"
	default:
		c.repeat()
		how = "repeats all"
	}
	return fmt.Sprintf("of %s of %s %s", resources[c.kind], r.name, how)
}

// indexed returns the nodes that a Reservation has in the stored index.
func (w *world) indexed(reservation string) (names []string) {
	for name, g := range w.truth.index.Grants {
		if g.Reservation == reservation && name != v1alpha1.ProbeNode {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
