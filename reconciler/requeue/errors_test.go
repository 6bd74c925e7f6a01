package requeue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reservation-operator/reservation-operator/reconciler/requeue"
)

func TestAnOutageIsOutlastedByHalfAMinute(t *testing.T) {
	limiter := requeue.AfterErrors()
	var last time.Duration
	for range 50 {
		next := limiter.When(reconcile.Request{})
		require.GreaterOrEqual(t, next, last)
		last = next
	}
	require.Equal(t, 30*time.Second, last)
}
