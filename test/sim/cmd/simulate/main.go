package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/reservation-operator/reservation-operator/test/sim"
	"github.com/reservation-operator/reservation-operator/test/sim/fleet"
)

func main() {
	steps := flag.Int("steps", 1_000_000, "how many actions to play in all")
	seed := flag.Uint64("seed", 0, "the seed of all histories; 0 is a fresh one")
	replay := flag.String("history", "", "one history to play and tell instead: its seed, or what a violation printed")
	world := flag.String("world", "small", "small: random histories of a few nodes; fleet: the load of a whole cluster")
	recorded := flag.String("fleet", "", "the folder of a recorded fleet, with nodes.yaml and pods.csv; none is one made from published figures")
	days := flag.Int("days", 3, "within how many days all pods of a fleet come")
	flag.Parse()
	if *replay != "" {
		os.Exit(again(*replay))
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	switch *world {
	case "small":
		os.Exit(play(*steps, *seed))
	case "fleet":
		os.Exit(load(*recorded, *days, *seed))
	}
	fmt.Fprintf(os.Stderr, "--world: there is no %q: small or fleet\n", *world)
	os.Exit(2)
}

func load(dir string, days int, seed uint64) int {
	began := time.Now()
	f := fleet.Make(seed)
	if dir != "" {
		var err error
		if f, err = fleet.Read(dir); err != nil {
			fmt.Fprintln(os.Stderr, "--fleet:", err)
			return 2
		}
	}
	if days < 1 || days > 365 {
		fmt.Fprintln(os.Stderr, "--days: 1 to 365")
		return 2
	}
	fmt.Printf("%d nodes, %d pods within %d days, a commit each hour\n", len(f.Nodes), len(f.Pods), days)
	result := sim.Load(f, days, seed)
	violations := 0
	if result.Broken != nil {
		violations = 1
		fmt.Println("violation of", result.Broken)
	}
	fmt.Println("played in", time.Since(began).Round(time.Second/10))
	fmt.Println(result)
	fmt.Printf("simulate steps=%d seed=%d violations=%d\n", result.Events, seed, violations)
	return violations
}

func play(steps int, seed uint64) int {
	began := time.Now()
	result := sim.Run(sim.Options{Steps: steps, Seed: seed, Stop: 3})
	for _, v := range result.Violations {
		sim.Tell(os.Stdout, v)
	}
	fmt.Println(result.Did)
	fmt.Printf("%d histories in %s, digest %016x\n", result.Histories, time.Since(began).Round(time.Second/10), result.Digest)
	fmt.Printf("simulate steps=%d seed=%d violations=%d\n", result.Steps, seed, len(result.Violations))
	return min(1, len(result.Violations))
}

func again(history string) int {
	seed, list, err := sim.ParseReplay(history)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	violation, story := sim.Replay(seed, list)
	for _, line := range story {
		fmt.Println(line)
	}
	if violation == nil {
		fmt.Println("no law is broken")
		return 0
	}
	fmt.Println("violation of", violation)
	return 1
}
