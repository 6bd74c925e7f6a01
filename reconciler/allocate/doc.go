// Package allocate decides which Reservation has which node, and writes that down before anything else happens.
//
// In come all Reservations, all Nodes and the index, the ConfigMap that remembers who has what; out go the next index
// and, for every node that a Reservation claims and does not get, the reason. The index is the parameter of the API
// server's fences, so a node is closed to other tenants' pods before it is labelled, and stays closed until its lock
// is off again. This package never touches a Node and never looks at a pod.
//
// A grant's life, each arrow one write of the index:
//
//	(free) -> held -> releasing -> freed -> (free)
//	           ^         |  |
//	           |         |  +---> held by another Reservation that waited for it
//	           +---------+ claimed again before its pods were gone
//
// One decision:
//
//	decision := allocate.Decide(allocate.Snapshot{Reservations: reservations, Nodes: nodes, Index: index})
package allocate
