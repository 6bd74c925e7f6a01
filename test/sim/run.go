package sim

import (
	"fmt"
	"io"
	"runtime"
	"sync"
)

// Options say what Run plays.
type Options struct {
	// Steps is how many actions are played in all, and Seed what they are drawn from.
	Steps int
	Seed  uint64
	// Stop is after how many histories that broke a law no further one begins; 0 is 1.
	Stop int

	mutate func(*parts)
}

// Result is what came of it.
type Result struct {
	// Steps and Histories were played.
	Steps, Histories int
	// Did is what the operator did in them.
	Did Deeds
	// Digest is the same for the same seed.
	Digest uint64
	// Violations are the laws that were broken, at most one in each history.
	Violations []Violation
}

// Deeds count what the operator did.
type Deeds struct {
	// Locks are nodes that got a lock, Handovers those that bore another tenant's till then, and Unlocks nodes that lost
	// theirs. Drains are releases that had to wait for pods.
	Locks, Handovers, Unlocks, Drains int
	// Evictions are pods that were evicted, and Deletions those of them that were deleted past their budget.
	Evictions, Deletions int
}

func (d *Deeds) add(e Deeds) {
	d.Locks, d.Handovers, d.Unlocks, d.Drains = d.Locks+e.Locks, d.Handovers+e.Handovers, d.Unlocks+e.Unlocks, d.Drains+e.Drains
	d.Evictions, d.Deletions = d.Evictions+e.Evictions, d.Deletions+e.Deletions
}

func (d Deeds) String() string {
	return fmt.Sprintf("%d locks, %d of them handovers, %d unlocks, %d drains, %d evictions, %d deletions",
		d.Locks, d.Handovers, d.Unlocks, d.Drains, d.Evictions, d.Deletions)
}

// Violation is a law that was broken.
type Violation struct {
	// Law is which one, and Text how.
	Law, Text string
	// History is the seed of the history, and Actions are what was played in it until then. Settled says that the law
	// was broken after them.
	History uint64
	Actions []Action
	Settled bool
}

func (v *Violation) String() string { return v.Law + ": " + v.Text }

// shortest and longest are how many steps a history has.
const shortest, longest = 500, 2000

// Run plays histories until all steps are played, several at once. What it finds does not depend on how many.
func Run(o Options) Result {
	type job struct {
		seed  uint64
		steps int
	}
	var jobs []job
	for left, i := o.Steps, uint64(0); left > 0; i++ {
		j := job{seed: mix(o.Seed, i)}
		j.steps = min(left, shortest+int(j.seed%(longest-shortest+1)))
		left -= j.steps
		jobs = append(jobs, j)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	result, next := Result{}, 0
	broken := map[int]Violation{}
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(jobs) || len(broken) >= max(1, o.Stop) {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(len(jobs), runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i, more := take(); more; i, more = take() {
				violation, w := history(jobs[i].seed, actions(jobs[i].seed, jobs[i].steps), o.mutate, nil)
				mu.Lock()
				result.Steps += jobs[i].steps
				result.Histories++
				result.Digest += w.digest
				result.Did.add(w.did)
				if violation != nil {
					broken[i] = *violation
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for i := range jobs {
		if v, ok := broken[i]; ok {
			result.Violations = append(result.Violations, v)
		}
	}
	return result
}

// history plays one history in a world of its own and lets it settle. The story, if any, gets a line for each thing
// that happens.
func history(seed uint64, list []Action, mutate func(*parts), story *[]string) (*Violation, *world) {
	w := newWorld(seed, mutate)
	w.story = story
	defer w.close()
	for i, a := range list {
		if !w.play(a) {
			w.broken.Actions = list[:i+1]
			return w.broken, w
		}
	}
	w.settle()
	if w.broken != nil {
		w.broken.Actions, w.broken.Settled = list, true
	}
	return w.broken, w
}

// Tell writes a violation with the shortest history that leads to it, and how to play it again.
func Tell(out io.Writer, v Violation) {
	short, story := shrink(v, nil)
	fmt.Fprintf(out, "\nviolation of %s\n", &short)
	fmt.Fprintf(out, "after %d actions, of %d; play them with: make simulate HISTORY=%s\n", len(short.Actions), len(v.Actions), short.Replay())
	for _, line := range story {
		fmt.Fprintln(out, " ", line)
	}
}
