// Package ledger is what the node reconciler tells the rest of the operator: what it last saw and did at each node.
//
// In comes one Report per node; out it goes to allocation, which takes the next step of a release when a node is
// drained, and to the Reservations' statuses. It is memory alone, made anew from the objects after a restart.
//
//	reports.Set("gpu-04", ledger.Report{PodsLeft: 3, WaitingFor: "3 pods of tenant-foo"})
package ledger
