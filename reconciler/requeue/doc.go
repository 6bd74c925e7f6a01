// Package requeue says what brings a key back to a controller besides events of objects: a word from inside this
// process, and an error.
//
//	wake := &requeue.Wake{Delay: func(string) time.Duration { return 100 * time.Millisecond }}
//	ctrl.NewControllerManagedBy(mgr).WithOptions(controller.Options{RateLimiter: requeue.AfterErrors()}).WatchesRawSource(wake)
//	wake.Add("gpu-01")
package requeue
