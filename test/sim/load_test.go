package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reservation-operator/reservation-operator/test/sim/fleet"
)

// smallFleet has a hundred nodes of one GPU, and pods that each fill one for five hours.
func smallFleet() fleet.Fleet {
	var f fleet.Fleet
	room := fleet.Room{CPU: 1000, Memory: 1, GPU: 1000}
	for i := range 100 {
		f.Nodes = append(f.Nodes, fleet.Node{Name: fmt.Sprintf("gpu-%02d", i), Room: room})
	}
	for i := range 300 {
		f.Pods = append(f.Pods, fleet.Pod{Name: fmt.Sprintf("pod-%03d", i), Arrive: time.Duration(i) * time.Minute, Life: 5 * time.Hour, Needs: room})
	}
	return f
}

func TestLoad(t *testing.T) {
	r := Load(smallFleet(), 1, 7)
	require.Nil(t, r.Broken)
	require.Equal(t, r, Load(smallFleet(), 1, 7), "the same seed gives the same result")
	require.NotEqual(t, r, Load(smallFleet(), 1, 8))
	require.Equal(t, 300, r.Pods)
	require.Positive(t, r.Held)
	require.Zero(t, r.Left)
	require.Positive(t, r.HeldMedian)
	require.LessOrEqual(t, r.HeldMedian, 5*time.Hour, "no longer than the pod that runs there")
	require.LessOrEqual(t, r.P99, 5*time.Hour)
	require.Zero(t, r.Idle, "a node that its pod fills has nothing idle")
}

// Half of a node that is cordoned for five hours at most is idle meanwhile.
func TestLoadCountsWhatIsIdle(t *testing.T) {
	f := smallFleet()
	for i := range f.Pods {
		f.Pods[i].Needs.GPU = 600
	}
	r := Load(f, 1, 7)
	require.Positive(t, r.Idle)
	require.LessOrEqual(t, r.Idle, float64(r.Held)*5*0.4+1e-6)
}
