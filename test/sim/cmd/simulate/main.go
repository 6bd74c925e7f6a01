package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/reservation-operator/reservation-operator/test/sim"
)

func main() {
	steps := flag.Int("steps", 1_000_000, "how many actions to play in all")
	seed := flag.Uint64("seed", 0, "the seed of all histories; 0 is a fresh one")
	replay := flag.String("history", "", "one history to play and tell instead: its seed, or what a violation printed")
	flag.Parse()
	if *replay != "" {
		os.Exit(again(*replay))
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	os.Exit(play(*steps, *seed))
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
