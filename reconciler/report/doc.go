// Package report turns what happened into what people and machines read: conditions, events and metrics.
//
// In come facts and Outcomes; out go the conditions of an object, the result of a reconcile and one constructor per
// event. It decides nothing about nodes or commits, and no other package sets a Ready, Reconciling or Stalled
// condition.
//
//	outcome := report.Waiting(v1alpha1.ReasonNodesReleasing, "gpu-04 waits for 3 pods", 0)
//	outcome.Mark(reservation)
//	return outcome.Result(interval)
package report
