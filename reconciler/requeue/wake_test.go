package requeue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

var _ source.Source = &Wake{}

func TestWakeNeverBlocksBeforeTheStartOrAfterTheStop(t *testing.T) {
	w := &Wake{}
	for range 2 {
		for i := range 5000 {
			w.Add(fmt.Sprintf("n%04d", i)) // nobody listens yet
		}
	}

	queue := priorityqueue.New[reconcile.Request]("test")
	require.NoError(t, w.Start(t.Context(), queue))
	seen := map[string]bool{}
	for range 5000 {
		r, _ := queue.Get()
		require.False(t, seen[r.Name], "%s waits once, however often it was added", r.Name)
		seen[r.Name] = true
		queue.Done(r)
	}
	require.Zero(t, queue.Len())

	queue.ShutDown()
	w.Add("late") // nobody listens any more
}

func TestWakeWaitsForItsDelay(t *testing.T) {
	w := &Wake{Delay: func(string) time.Duration { return time.Hour }}
	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	require.NoError(t, w.Start(context.Background(), queue))
	w.Add("all")
	w.Add("all")
	time.Sleep(10 * time.Millisecond)
	require.Zero(t, queue.Len())
}
