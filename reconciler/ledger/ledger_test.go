package ledger

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLedger(t *testing.T) {
	l := &Ledger{}
	var told []string
	l.Watch(func(node string) { told = append(told, fmt.Sprint(node, l.Get(node).PodsLeft)) })

	require.Zero(t, l.Get("n1"))
	require.Empty(t, l.Drained())
	l.Set("n1", Report{PodsLeft: 2, ForeignPods: []string{"a/b"}})
	l.Set("n1", Report{PodsLeft: 2, ForeignPods: []string{"a/b"}})
	require.Equal(t, []string{"n12"}, told, "the same again is not told")
	l.Set("n1", Report{PodsLeft: 1})
	l.Set("n2", Report{})
	require.Equal(t, []string{"n12", "n11"}, told, "nor is that there is nothing to say")
	l.Set("n1", Report{Drained: true, IndexVersion: 7})
	l.Set("n2", Report{Reason: "x"})
	require.Equal(t, map[string]int64{"n1": 7}, l.Drained())
	l.Set("n1", Report{})
	require.Empty(t, l.Drained())
	require.Len(t, l.reports, 1, "what has nothing to say takes no room")
}

func TestLedgerIsUsedFromManyGoroutines(t *testing.T) {
	l := &Ledger{}
	var told atomic.Int64
	l.Watch(func(node string) { l.Get(node); l.Drained(); told.Add(1) })
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				l.Set(fmt.Sprintf("n%d", i), Report{PodsLeft: int32(n + 1)})
				l.Watch(func(string) {})
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 8*200, told.Load())
	for i := range 8 {
		require.EqualValues(t, 200, l.Get(fmt.Sprintf("n%d", i)).PodsLeft)
	}
}
