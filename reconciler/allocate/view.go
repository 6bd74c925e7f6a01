package allocate

import (
	"maps"
	"slices"
	"sync"
)

// View is the last index that this process wrote or read back, for those who act on it. The allocation worker is the
// only one that publishes; anybody may read, from many goroutines at once.
type View struct {
	mu       sync.RWMutex
	index    Index
	enforced bool
	nodes    map[string][]string
	watchers []func(changed []string)
}

// Watch registers a function that is called after each publication with the names of the nodes whose grant, or whose
// enforcement, changed; sorted. It is called on the publisher's goroutine and must not block.
func (v *View) Watch(f func(changed []string)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.watchers = append(v.watchers, f)
}

// Publish makes an index the one that everybody sees. Enforced says that the API server was seen to enforce it; an
// index that is not enforced must not be acted on.
func (v *View) Publish(index Index, enforced bool) {
	v.mu.Lock()
	changed := v.changes(index, enforced)
	v.index, v.enforced, v.nodes = index, enforced, map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(index.Grants)) {
		holder := index.Grants[node].Reservation
		v.nodes[holder] = append(v.nodes[holder], node)
	}
	watchers := slices.Clone(v.watchers)
	v.mu.Unlock()
	if len(changed) == 0 {
		return
	}
	for _, f := range watchers {
		f(changed)
	}
}

func (v *View) changes(index Index, enforced bool) []string {
	changed := map[string]bool{}
	for node, grant := range index.Grants {
		before, had := v.index.Grants[node]
		if !had || !before.equal(grant) || enforced != v.enforced {
			changed[node] = true
		}
	}
	for node := range v.index.Grants {
		if _, has := index.Grants[node]; !has {
			changed[node] = true
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// Grant returns a node's grant, whether it has one, the version of the index that says so, and whether the API
// server enforces that index.
func (v *View) Grant(node string) (grant Grant, granted bool, version int64, enforced bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	grant, granted = v.index.Grants[node]
	return grant, granted, v.index.Version, v.enforced
}

// Nodes returns the nodes granted to a Reservation in any phase, sorted. The caller must not change the slice.
func (v *View) Nodes(reservation string) []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.nodes[reservation]
}

// Enforced reports whether the API server was seen to enforce the index, and the index's version; 0 means that
// nothing was published yet.
func (v *View) Enforced() (bool, int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.enforced, v.index.Version
}
