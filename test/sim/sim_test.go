package sim

import (
	"context"
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
}

func TestTheSameSeedGivesTheSameHistory(t *testing.T) {
	first := Run(Options{Steps: 10_000, Seed: 5})
	require.Equal(t, first, Run(Options{Steps: 10_000, Seed: 5}))
	require.NotEqual(t, first.Digest, Run(Options{Steps: 10_000, Seed: 6}).Digest)
}

// credulous is a fence that is never asked.
type credulous struct{}

func (credulous) Await(context.Context, int64) error { return nil }

// Nodes that are locked before the API server enforces the index are noticed, with a short history that shows it again.
func TestAMissingProofIsNoticedShrunkAndPlayedAgain(t *testing.T) {
	credulously := func(p *parts) { p.Fence = credulous{} }
	result := Run(Options{Steps: 20_000, Seed: 1, mutate: credulously})
	require.NotEmpty(t, result.Violations)
	short, story := shrink(result.Violations[0], credulously)
	require.Equal(t, result.Violations[0].Law, short.Law)
	require.Less(t, len(short.Actions), 40)
	require.NotEmpty(t, story)
	again, _ := history(short.History, short.Actions, credulously, nil)
	require.Equal(t, short.String(), again.String())
	whole, _ := Replay(short.History, short.Actions)
	require.Nil(t, whole, "with the proof, no law is broken")
}

func TestParseReplay(t *testing.T) {
	v := Violation{History: 0xff, Actions: actions(0xff, 3)}
	seed, list, err := ParseReplay(v.Replay())
	require.NoError(t, err)
	require.Equal(t, v.History, seed)
	require.Equal(t, v.Actions, list)
	for name, text := range map[string]string{"no seed": "x", "no action of that name": "ff,fly:1"} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ParseReplay(text)
			require.Error(t, err)
		})
	}
}
