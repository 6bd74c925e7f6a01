// Package plan says what a commit would do to nodes and the pods on them, before it is applied.
//
// In come the Reservations before and after, the nodes and the index, as plain values; out goes one [Plan], which the
// record of the commit, the release guard, the command line and the pull-request comment all read. It asks the
// allocation itself (allocate.Decide), so it never promises what the allocation would not do. It never reads or
// writes the cluster.
//
//	p := plan.Make(plan.Input{Before: live, After: plan.After(live, set, deleted), Nodes: nodes, Index: index})
//	fmt.Println(p) // 2 objects changed; 1 node locked (gpu-05), 1 node released (gpu-04)
package plan
