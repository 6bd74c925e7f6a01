package requeue

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Wake is a source.Source of names that come from inside this process: what was published, what was reported. Unlike
// a channel it never blocks who adds, neither before its controller has started nor after it has stopped, and a name
// that waits already is not added twice. Use each for one controller; the zero Wake is ready for use.
type Wake struct {
	// Delay says how long a name waits, so that all that is added within it is answered once; nil is not at all.
	Delay func(name string) time.Duration

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	early map[string]bool // added before the start
}

// Add asks the controller to reconcile a name. It may be called at any time, from many goroutines at once.
func (w *Wake) Add(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil {
		w.enqueue(name)
		return
	}
	if w.early == nil {
		w.early = map[string]bool{}
	}
	w.early[name] = true
}

// Start implements source.Source.
func (w *Wake) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	for name := range w.early {
		w.enqueue(name)
	}
	w.early = nil
	return nil
}

func (w *Wake) enqueue(name string) {
	var delay time.Duration
	if w.Delay != nil {
		delay = w.Delay(name)
	}
	w.queue.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, delay)
}
