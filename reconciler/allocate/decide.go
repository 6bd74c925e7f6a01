package allocate

import (
	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Node is what allocation needs to know of a Node.
type Node struct {
	// Name is the node's name.
	Name string
	// Labels are the node's labels.
	Labels map[string]string
	// Holder is the value of the node's reservation annotation: whose lock it bears; empty for none.
	Holder string
	// Tenant is the value of the node's label reserved.tenant; empty for none.
	Tenant string
	// Deleting is true once the Node object is being deleted.
	Deleting bool
}

// Snapshot is everything that a decision rests on, gathered at one moment.
type Snapshot struct {
	// Reservations are all that exist, in any order. One that is being deleted claims nothing.
	Reservations []v1alpha1.Reservation
	// Nodes are all that exist, in any order.
	Nodes []Node
	// Index is what is granted now.
	Index Index
	// Drained names the releasing nodes on which, after their release was enforced, no pod of the tenant was left.
	Drained map[string]bool
	// MaxBytes is the most bytes that the index may hold; 0 means no bound.
	MaxBytes int
}

// Decision is who gets which node, and why others do not.
type Decision struct {
	// Index is what is to be granted; its Version is the snapshot's.
	Index Index
	// Pending maps a Reservation's name to the nodes that it claims and does not hold, sorted by node name.
	Pending map[string][]v1alpha1.PendingNode
}
