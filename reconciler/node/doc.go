// Package node brings one node to what allocation granted: it locks it, or releases it without disturbing what runs
// there.
//
// In come the Node, its grant, the Reservation that has it, and, once they were listed, the tenant's pods on it; out
// goes one Step: a patch, evictions, a report or a wait. Next decides, Reconciler reads, calls it and does the one
// step. No other code writes to a Node. It never decides who gets a node and never acts on an index that the API
// server does not enforce.
//
//	step := node.Next(node.Snapshot{Node: n, Grant: grant, Granted: true, Enforced: true, Reservation: r, Now: now})
package node
