// Package lock says what a reserved node bears: the tenant's label, its taint, and the annotations that name the
// holder and remember what this operator did.
//
// In comes a Node and a Reservation; out goes the Node as it should be. Nothing is written here: the caller patches
// the difference, with the Node's resourceVersion as precondition, since taints are one atomic list. Labels, taints
// and cordons of others are left as they are.
//
//	locked, err := lock.On(node, reservation) // held
//	free := lock.Off(node)                    // released
package lock
