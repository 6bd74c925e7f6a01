package sim

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	steps = flag.Int("steps", 100_000, "how many steps TestSimulate plays")
	seed  = flag.Uint64("seed", 0, "the seed of TestSimulate; 0 is a fresh one")
)

func TestSimulate(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	t.Logf("play the same again with: make simulate STEPS=%d SEED=%d", *steps, *seed)
	result := Run(Options{Steps: *steps, Seed: *seed})
	for _, v := range result.Violations {
		var text strings.Builder
		Tell(&text, v)
		t.Error(text.String())
	}
	require.Equal(t, *steps, result.Steps)
	t.Log(result.Did)
}

func TestTheSameSeedGivesTheSameHistory(t *testing.T) {
	first := Run(Options{Steps: 10_000, Seed: 5})
	require.Equal(t, first, Run(Options{Steps: 10_000, Seed: 5}))
	require.NotEqual(t, first.Digest, Run(Options{Steps: 10_000, Seed: 6}).Digest)
}

// TestHistoriesAreWorthSomething demands that what the laws are about comes up often.
func TestHistoriesAreWorthSomething(t *testing.T) {
	did := Run(Options{Steps: 50_000, Seed: 7}).Did
	require.Greater(t, did.Locks, 250, did)
	require.Greater(t, did.Handovers, 25, did)
	require.Greater(t, did.Unlocks, 80, did)
	require.Greater(t, did.Drains, 60, did)
	require.Greater(t, did.Evictions, 25, did)
}

func TestAViolationIsShrunkAndPlayedAgain(t *testing.T) {
	mutate := mutations["uncordon always"].mutate
	result := Run(Options{Steps: 20_000, Seed: 1, mutate: mutate})
	require.NotEmpty(t, result.Violations)
	found := result.Violations[0]
	short, story := shrink(found, mutate)
	require.Equal(t, found.Law, short.Law)
	require.Less(t, len(short.Actions), 40)
	require.NotEmpty(t, story)

	seed, list, err := ParseReplay(short.Replay())
	require.NoError(t, err)
	require.Equal(t, short.History, seed)
	require.Equal(t, short.Actions, list)
	again, _ := history(seed, list, mutate, nil)
	require.Equal(t, short.String(), again.String())
	whole, _ := Replay(seed, list)
	require.Nil(t, whole, "without the mutation, no law is broken")
}

func TestParseReplay(t *testing.T) {
	_, list, err := ParseReplay("ff")
	require.NoError(t, err)
	require.Equal(t, actions(0xff, len(list)), list, "a seed alone is its whole history")
	for name, text := range map[string]string{"no seed": "x", "no action of that name": "ff,fly:1", "no seed of an action": "ff,node:%"} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ParseReplay(text)
			require.Error(t, err)
		})
	}
}
