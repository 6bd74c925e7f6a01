package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// lifetimes are how long GPU pods of the openb trace run, in seconds: of 6,203 pods, such a part no longer than that.
var lifetimes = []struct{ part, seconds float64 }{{0.1, 67}, {0.5, 655}, {0.9, 7389}, {0.99, 147_608}}

// How many there are of a made fleet: about as many as of the recorded one.
const madeNodes, madePods = 1200, 6200

// Make makes a fleet from a seed: nodes of eight GPUs, and pods of one to eight that live as those of the openb trace do
// and come evenly over a hundred days.
func Make(seed uint64) Fleet {
	d := rand.New(rand.NewPCG(seed, 2))
	var f Fleet
	for i := range madeNodes {
		f.Nodes = append(f.Nodes, Node{Name: fmt.Sprintf("gpu-%04d", i), Model: "made", Room: Room{CPU: 96_000, Memory: 768 << 10, GPU: 8000}})
	}
	for i := range madePods {
		gpus := int64(1) << max(0, d.IntN(8)-4) // mostly one, seldom eight
		f.Pods = append(f.Pods, Pod{
			Name: fmt.Sprintf("pod-%04d", i), Arrive: time.Duration(d.Int64N(int64(100 * 24 * time.Hour))), Life: lifetime(d.Float64()),
			Needs: Room{CPU: 8000 * gpus, Memory: 64 << 10 * gpus, GPU: 1000 * gpus},
		})
	}
	return f.sorted()
}

// lifetime returns how long the shortest part of all pods lives at most: between two figures as their logarithms go,
// beyond the first and the last as those.
func lifetime(part float64) time.Duration {
	seconds := lifetimes[0].seconds
	for i := 1; i < len(lifetimes) && part > lifetimes[i-1].part; i++ {
		a, b := lifetimes[i-1], lifetimes[i]
		along := min(1, (part-a.part)/(b.part-a.part))
		seconds = a.seconds * math.Pow(b.seconds/a.seconds, along)
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second)
}
