package requeue

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// AfterErrors returns a rate limiter for one controller: a key that failed comes back after 5 ms, each time twice as
// late, and after 30 s at most. The usual quarter of an hour would outlast most outages of an API server, and the last
// patch of a release waits for no other event.
func AfterErrors() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, 30*time.Second)
}
