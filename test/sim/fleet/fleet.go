package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Fleet is a cluster's machines, and the pods that came to it.
type Fleet struct {
	// Nodes are sorted by name.
	Nodes []Node
	// Pods are sorted by Arrive, and then by name.
	Pods []Pod
}

// Node is one machine.
type Node struct {
	Name string
	// Model is the kind of its GPUs; empty if it has none.
	Model string
	Room  Room
}

// Pod is one pod that ran.
type Pod struct {
	Name string
	// Arrive is when it was created, since the first one was; Life is how long it ran.
	Arrive, Life time.Duration
	// Models are the GPUs that it may run on; none is any.
	Models []string
	Needs  Room
}

// Room is what a node has, or a pod needs: thousandths of a core and of a GPU, and MiB.
type Room struct{ CPU, Memory, GPU int64 }

// Fits reports whether a need has room.
func (r Room) Fits(need Room) bool {
	return need.CPU <= r.CPU && need.Memory <= r.Memory && need.GPU <= r.GPU
}

// Plus returns the sum.
func (r Room) Plus(o Room) Room { return Room{r.CPU + o.CPU, r.Memory + o.Memory, r.GPU + o.GPU} }

// Minus returns the difference.
func (r Room) Minus(o Room) Room { return Room{r.CPU - o.CPU, r.Memory - o.Memory, r.GPU - o.GPU} }

// Takes reports whether a pod may run on the node's kind of GPU.
func (n Node) Takes(p Pod) bool { return len(p.Models) == 0 || slices.Contains(p.Models, n.Model) }

// Share returns which part of the node is free, of its GPUs, or of its cores if it has none: 0 to 1.
func (n Node) Share(free Room) float64 {
	if n.Room.GPU > 0 {
		return float64(free.GPU) / float64(n.Room.GPU)
	}
	return float64(free.CPU) / float64(max(1, n.Room.CPU))
}

// quiet is the longest time without an arrival that Compress plays as it was.
const quiet = time.Hour

// Compress returns the fleet with all of its pods arriving within a time, in the same rhythm but for hours in which none
// came. How long each of them lives stays.
func (f Fleet) Compress(within time.Duration) Fleet {
	pods := slices.Clone(f.Pods)
	var at, before time.Duration
	for i := range pods {
		arrived := pods[i].Arrive
		at += min(arrived-before, quiet)
		before, pods[i].Arrive = arrived, at
	}
	for i := range pods {
		pods[i].Arrive = time.Duration(float64(pods[i].Arrive) / float64(max(1, at)) * float64(within)).Round(time.Second)
	}
	return Fleet{Nodes: f.Nodes, Pods: pods}
}

func (f Fleet) sorted() Fleet {
	slices.SortFunc(f.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(f.Pods, func(a, b Pod) int { return cmp.Or(cmp.Compare(a.Arrive, b.Arrive), strings.Compare(a.Name, b.Name)) })
	return f
}
