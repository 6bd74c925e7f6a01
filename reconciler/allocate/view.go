package allocate

import (
	"slices"
	"sync"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// View is the last index that this process wrote or read back, and why claims were not granted, for those who act on
// it or report it. The allocation worker is the only one that publishes; anybody may read, from many goroutines at
// once.
type View struct {
	mu            sync.RWMutex
	index         Index
	pending       map[string][]v1alpha1.PendingNode
	generations   map[string]int64
	enforced      bool
	nodes         map[string][]string
	onNode        []func(node string)
	onReservation []func(reservation string)
	onBound       []func()
	// withheld are nodes whose grants are not to be acted on until the next publication.
	withheld map[string]bool
	// failure is why there is no newer decision.
	failure error
	// doubt says what to do about a fence that is not proven.
	doubt string
	// bound is that of the last enforced index; nil before there was one.
	bound []string
}

// Watch registers functions that are called after each publication: onNode for every node whose grant or enforcement
// changed, onReservation for every Reservation whose nodes or pending nodes did. They run on the publisher's
// goroutine and must not block; nil is none.
func (v *View) Watch(onNode, onReservation func(name string)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if onNode != nil {
		v.onNode = append(v.onNode, onNode)
	}
	if onReservation != nil {
		v.onReservation = append(v.onReservation, onReservation)
	}
}

// Publish makes a decision the one that everybody sees. Doubt is empty if the API server was seen to enforce its index,
// and else what to do about that; an index that is not enforced must not be acted on.
func (v *View) Publish(decision Decision, doubt string) {
	index, enforced := decision.Index, doubt == ""
	v.mu.Lock()
	nodes, reservations := v.changes(decision, doubt)
	for node := range v.withheld {
		nodes[node] = true // whoever looked meanwhile was told to wait
	}
	v.withheld = nil
	var onBound []func()
	if enforced && (v.bound == nil || !slices.Equal(v.bound, index.Bound)) {
		v.bound, onBound = append([]string{}, index.Bound...), v.onBound
	}
	v.index, v.enforced, v.doubt, v.nodes = index, enforced, doubt, map[string][]string{}
	v.pending, v.generations, v.failure = decision.Pending, decision.Generations, nil
	for node, grant := range index.Grants {
		v.nodes[grant.Reservation] = append(v.nodes[grant.Reservation], node)
	}
	for _, nodes := range v.nodes {
		slices.Sort(nodes)
	}
	onNode, onReservation := v.onNode, v.onReservation
	v.mu.Unlock()
	for _, f := range onBound {
		f()
	}
	for _, f := range onNode {
		for node := range nodes {
			f(node)
		}
	}
	for _, f := range onReservation {
		for reservation := range reservations {
			f(reservation)
		}
	}
}

// Withhold keeps the grants of these nodes from being acted on until the next publication: the decision that is about to
// be written forgets them.
func (v *View) Withhold(nodes []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.withheld == nil {
		v.withheld = map[string]bool{}
	}
	for _, node := range nodes {
		v.withheld[node] = true
	}
}

// Fail notes that no decision could be made or written; the last one stays in force until the next is published.
func (v *View) Fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failure = err
}

// Doubt returns what to do about the fence if the last publication is not enforced; empty if it is, and before the first.
func (v *View) Doubt() string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.doubt
}

// Failure returns why there is no newer decision, or nil.
func (v *View) Failure() error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.failure
}

// Again calls onNode for a node of which nothing changed.
func (v *View) Again(node string) {
	v.mu.RLock()
	onNode := v.onNode
	v.mu.RUnlock()
	for _, f := range onNode {
		f(node)
	}
}

// changes returns the nodes and the Reservations that the decision says something new of.
func (v *View) changes(d Decision, doubt string) (nodes, reservations map[string]bool) {
	enforced := doubt == ""
	nodes, reservations = map[string]bool{}, map[string]bool{}
	for node, grant := range d.Index.Grants {
		before, had := v.index.Grants[node]
		if !had || !before.equal(grant) || enforced != v.enforced {
			nodes[node], reservations[grant.Reservation] = true, true
		}
		if had && before.Reservation != grant.Reservation {
			reservations[before.Reservation] = true
		}
	}
	for node, before := range v.index.Grants {
		if _, has := d.Index.Grants[node]; !has {
			nodes[node], reservations[before.Reservation] = true, true
		}
	}
	for name, generation := range d.Generations {
		if v.generations[name] != generation || !slices.Equal(d.Pending[name], v.pending[name]) || doubt != v.doubt || enforced != v.enforced {
			reservations[name] = true
		}
	}
	return nodes, reservations
}

// Reservation returns what was decided about a Reservation: the generation of its spec that the decision read (0 if
// none did yet), the nodes granted to it in any phase, and those that it claims and does not hold; both sorted. The
// caller must not change the slices.
func (v *View) Reservation(name string) (generation int64, granted []string, pending []v1alpha1.PendingNode) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.generations[name], v.nodes[name], v.pending[name]
}

// Grant returns a node's grant, whether it has one, the version of the index that says so, and whether the API
// server enforces that index.
func (v *View) Grant(node string) (grant Grant, granted bool, version int64, enforced bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	grant, granted = v.index.Grants[node]
	return grant, granted, v.index.Version, v.enforced && !v.withheld[node]
}

// Nodes returns the nodes granted to a Reservation in any phase, sorted. The caller must not change the slice.
func (v *View) Nodes(reservation string) []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.nodes[reservation]
}

// WatchBound registers a function that is called when the answer of Bound changed. It must not block.
func (v *View) WatchBound(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.onBound = append(v.onBound, f)
}

// Bound returns the namespaces with accepted bindings, sorted, that the API server was last seen to leave to the
// webhook; false before it was seen once. The caller must not change the slice.
func (v *View) Bound() ([]string, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.bound, v.bound != nil
}

// Enforced reports whether the API server was seen to enforce the index, and the index's version; 0 means that
// nothing was published yet.
func (v *View) Enforced() (bool, int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.enforced, v.index.Version
}
