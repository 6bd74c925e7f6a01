package sim

import (
	"hash/fnv"
	"math/rand/v2"
)

// mix makes one seed of two: different pairs give unrelated seeds (SplitMix64).
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// dice are the random choices of one action.
type dice struct{ *rand.Rand }

func roll(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 0))} }

func (d dice) one(of ...string) string { return of[d.IntN(len(of))] }

// in reports true once in n times.
func (d dice) in(n int) bool { return d.IntN(n) == 0 }

// any returns one of a slice, and false if it is empty.
func pick[T any](d dice, of []T) (T, bool) {
	if len(of) == 0 {
		var none T
		return none, false
	}
	return of[d.IntN(len(of))], true
}
