package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/sim/fleet"
)

// tenants is how many share a fleet, and commitEvery how often one of them gives up capacity.
const (
	tenants     = 8
	commitEvery = time.Hour
)

// patience is how long after the last commit a load is played on for the sake of nodes that still wait.
const patience = 7 * 24 * time.Hour

// load plays the pods of a fleet as the tenants', and commits that move its nodes between them, in a world of its own.
// Nothing is random but who gives up which node, and nothing goes wrong: what is measured is what a release costs.
type load struct {
	*world
	fleet fleet.Fleet
	dice  *rand.Rand
	nodes map[string]fleet.Node
	free  map[string]fleet.Room
	// arriving are the pods still to come, ending those that run, waiting those for which there is no room.
	arriving []fleet.Pod
	ending   []running
	waiting  [tenants][]fleet.Pod
	// has are the nodes of each tenant, spare those of nobody.
	has     [tenants][]string
	spare   []string
	leaving map[string]*release
	// roomier: pods that wait may find room now.
	roomier bool
	said    LoadResult
	// waits are how long releases took, held those that had to wait for pods.
	waits, held []time.Duration
}

type running struct {
	pod  fleet.Pod
	key  string
	node string
	end  time.Time
}

// release is a node that a commit took from a tenant.
type release struct {
	tenant string
	since  time.Time
	// held: there were pods that it had to wait for.
	held bool
}

// LoadResult is what came of a load.
type LoadResult struct {
	// Events are the times at which something happened, Pods those that ran, and Commits those that moved nodes.
	Events, Pods, Commits int
	// Released are the nodes that their tenant lost, Held those of them that had to wait for pods, and Left those that
	// still waited at the end.
	Released, Held, Left int
	// Median and P99 are how long releases took, from the commit on; HeldMedian is that of those that had to wait.
	Median, P99, HeldMedian time.Duration
	// Idle are the hours that nodes were cordoned for a release, each counted by the part of it that was free.
	Idle float64
	// Broken is the first law that was broken, or nil.
	Broken *Violation
}

func (r LoadResult) String() string {
	return fmt.Sprintf("fleet pods=%d commits=%d released=%d held=%d left=%d wait_p50=%s wait_p99=%s held_wait_p50=%s idle_node_hours=%.1f",
		r.Pods, r.Commits, r.Released, r.Held, r.Left, r.Median, r.P99, r.HeldMedian, r.Idle)
}

// Load plays the pods of a fleet within so many days, with a commit each hour. The same seed gives the same result.
func Load(f fleet.Fleet, days int, seed uint64) LoadResult {
	within := time.Duration(days) * 24 * time.Hour
	f = f.Compress(within)
	l := &load{
		world: emptyWorld(seed, nil), fleet: f, dice: rand.New(rand.NewPCG(seed, 3)), arriving: f.Pods,
		nodes: map[string]fleet.Node{}, free: map[string]fleet.Room{}, leaving: map[string]*release{},
	}
	defer l.close()
	l.begin()
	next := l.time.Add(commitEvery)
	for end := start.Add(within); l.broken == nil && l.advance(next, end); {
		l.said.Events++
		l.server.tick++
		l.end()
		if !l.time.Before(next) && l.time.Before(end) {
			l.commit()
			next = next.Add(commitEvery)
		}
		l.arrive()
		l.drain(l.leader())
		l.look()
		l.schedule()
	}
	return l.result()
}

// begin shares nine of ten nodes out.
func (l *load) begin() {
	names := make([]string, 0, len(l.fleet.Nodes))
	for _, n := range l.fleet.Nodes {
		l.nodes[n.Name], l.free[n.Name] = n, n.Room
		names = append(names, n.Name)
		l.server.put(nil, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{corev1.LabelHostname: n.Name}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		})
	}
	l.world.nodes = names
	l.dice.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i, name := range names {
		if i%10 == 9 {
			l.spare = append(l.spare, name)
		} else {
			l.has[i%tenants] = append(l.has[i%tenants], name)
		}
	}
	for i := range tenants {
		r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: tenant(i)}}
		r.Spec.Tenant, r.Spec.ApplyTaint, r.Spec.TaintEffect = tenant(i), ptr.To(true), corev1.TaintEffectNoSchedule
		r.Spec.ReservedNodes = slices.Sorted(slices.Values(l.has[i]))
		l.server.put(nil, r)
	}
	l.open()
	l.drain(l.leader())
}

func tenant(i int) string { return fmt.Sprintf("tenant-%d", i) }

// advance moves the clock to the next thing that happens, and reports false when nothing more does that matters.
func (l *load) advance(commit, end time.Time) bool {
	if !l.time.Before(end) && len(l.leaving) == 0 || !l.time.Before(end.Add(patience)) {
		return false
	}
	at := end.Add(patience)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if commit.Before(end) {
		sooner(commit)
	}
	if len(l.arriving) > 0 {
		sooner(start.Add(l.arriving[0].Arrive))
	}
	if len(l.ending) > 0 {
		sooner(l.ending[0].end)
	}
	for _, due := range l.leader().due {
		sooner(due)
	}
	if at.Before(l.time) {
		at = l.time
	}
	for name := range l.leaving {
		if n := l.server.node(name); n.Spec.Unschedulable {
			l.said.Idle += l.nodes[name].Share(l.free[name]) * at.Sub(l.time).Hours()
		}
	}
	l.time = at
	return true
}

// end ends the pods whose time has come.
func (l *load) end() {
	for len(l.ending) > 0 && !l.ending[0].end.After(l.time) {
		p := l.ending[0]
		l.ending = l.ending[1:]
		l.server.remove(nil, pods, p.key)
		l.free[p.node] = l.free[p.node].Plus(p.pod.Needs)
		l.roomier = true
	}
}

// arrive takes in the pods that come, each for the tenant that its number falls to.
func (l *load) arrive() {
	for len(l.arriving) > 0 && !start.Add(l.arriving[0].Arrive).After(l.time) {
		p := l.arriving[0]
		l.arriving = l.arriving[1:]
		i := hash(p.Name) % tenants
		l.waiting[i] = append(l.waiting[i], p)
		l.roomier = true
	}
}

// commit takes up to two nodes of a hundred from one tenant: half of them go to another one, half to nobody, who gives as
// many to it. Nodes that are still being released stay out of it.
func (l *load) commit() {
	from, to := l.dice.IntN(tenants), l.dice.IntN(tenants)
	gone, kept := l.settled(l.has[from], 1+l.dice.IntN(max(1, len(l.fleet.Nodes)/50)))
	if from == to || len(gone) == 0 || len(kept) == 0 {
		return
	}
	l.said.Commits++
	for _, name := range gone {
		l.leaving[name] = &release{tenant: tenant(from), since: l.time}
	}
	over, freed := gone[:len(gone)/2], gone[len(gone)/2:]
	given, spare := l.settled(l.spare, len(freed))
	l.has[from], l.has[to], l.spare = kept, slices.Concat(l.has[to], over, given), slices.Concat(spare, freed)
	for _, i := range []int{from, to} {
		edit(l.server, reservations, tenant(i), func(r *v1alpha1.Reservation) {
			r.Spec.ReservedNodes = slices.Sorted(slices.Values(l.has[i]))
		})
	}
}

// settled draws up to n names of nodes that are not being released. It returns them, and the others.
func (l *load) settled(names []string, n int) (drawn, rest []string) {
	for _, i := range l.dice.Perm(len(names)) {
		if len(drawn) < n && l.leaving[names[i]] == nil {
			drawn = append(drawn, names[i])
		} else {
			rest = append(rest, names[i])
		}
	}
	return drawn, rest
}

// look notes which of the nodes that were taken have lost their tenant's lock.
func (l *load) look() {
	for name, r := range l.leaving {
		n := l.server.node(name)
		if n.Labels[v1alpha1.LabelTenant] == r.tenant {
			r.held = true
			continue
		}
		wait := l.time.Sub(r.since)
		l.waits = append(l.waits, wait)
		if r.held {
			l.held = append(l.held, wait)
		}
		delete(l.leaving, name)
		l.roomier = true
	}
}

// schedule binds the pods that wait, the first first, each to the node of its tenant with the most room.
func (l *load) schedule() {
	if !l.roomier {
		return
	}
	l.roomier = false
	for i := range tenants {
		l.waiting[i] = slices.DeleteFunc(l.waiting[i], func(p fleet.Pod) bool { return l.bind(i, p) })
	}
}

// bind reports whether there was a node.
func (l *load) bind(i int, p fleet.Pod) bool {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tenant(i), Name: p.Name}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	inject(pod, tenant(i))
	best, most := "", -1.0
	for _, name := range l.has[i] {
		n, node := l.nodes[name], l.server.node(name)
		if share := n.Share(l.free[name]); share > most && n.Takes(p) && l.free[name].Fits(p.Needs) && wouldSchedule(node, pod) {
			best, most = name, share
		}
	}
	if best == "" || !l.admits(l.server.node(best), pod) {
		return false
	}
	pod.Spec.NodeName = best
	l.server.put(nil, pod)
	l.truth.bound(pod)
	l.free[best] = l.free[best].Minus(p.Needs)
	r := running{pod: p, key: keyOf(pod), node: best, end: l.time.Add(p.Life)}
	at, _ := slices.BinarySearchFunc(l.ending, r, func(a, b running) int { return a.end.Compare(b.end) })
	l.ending = slices.Insert(l.ending, at, r)
	l.said.Pods++
	return true
}

func (l *load) result() LoadResult {
	l.said.Released, l.said.Held, l.said.Left = len(l.waits), len(l.held), len(l.leaving)
	l.said.Median, l.said.P99, l.said.HeldMedian = quantile(l.waits, 0.5), quantile(l.waits, 0.99), quantile(l.held, 0.5)
	l.said.Broken = l.broken
	return l.said
}

// quantile returns the value that such a part of them does not exceed; 0 of none.
func quantile(of []time.Duration, part float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[int(part*float64(len(of)-1))]
}
