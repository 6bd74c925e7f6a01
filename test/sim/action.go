package sim

import (
	"fmt"
	"math/rand/v2"
)

// Action is one thing that somebody does. All that it chooses, it chooses by its own seed, so it does the same, as far
// as there is still something to do it to, when others are left out.
type Action struct {
	// Do names it, and Seed decides what it chooses.
	Do   string
	Seed uint64
}

func (a Action) String() string { return fmt.Sprintf("%s:%x", a.Do, a.Seed) }

// act is a kind of action: how often it comes up, and what it does; it says what it did.
type act struct {
	name   string
	weight int
	do     func(*world, dice) string
}

// acts are all kinds of actions. Those of the operator come first.
var acts = slicesConcat(operatorActs, userActs, tenantActs, machineActs, adminActs)

func slicesConcat(all ...[]act) []act {
	var out []act
	for _, a := range all {
		out = append(out, a...)
	}
	return out
}

var actsByName, totalWeight = func() (map[string]act, int) {
	byName, total := map[string]act{}, 0
	for _, a := range acts {
		byName[a.name] = a
		total += a.weight
	}
	return byName, total
}()

// actions draws a history.
func actions(seed uint64, n int) []Action {
	d := rand.New(rand.NewPCG(seed, 1))
	out := make([]Action, n)
	for i := range out {
		at := d.IntN(totalWeight)
		for _, a := range acts {
			if at -= a.weight; at < 0 {
				out[i] = Action{Do: a.name, Seed: d.Uint64()}
				break
			}
		}
	}
	return out
}

// play does one action and reports false once a law is broken.
func (w *world) play(a Action) bool {
	w.server.tick++
	said := actsByName[a.Do].do(w, roll(a.Seed))
	w.tell("%-14s %s", a.Do, said)
	return w.broken == nil
}

func (w *world) aNode(d dice) string { return w.nodes[d.IntN(len(w.nodes))] }

func aReservation(d dice) string { return d.one("r0", "r1", "r2") }
