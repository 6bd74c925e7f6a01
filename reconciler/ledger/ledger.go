package ledger

import (
	"reflect"
	"sync"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Report is what the node reconciler last saw and did at one node. It is kept in memory only: after a restart
// every report is made anew from what is on the objects.
type Report struct {
	// PodsLeft is how many of the tenant's pods a release still waits for, and Owners whose they are, ten at most.
	PodsLeft int32
	Owners   []v1alpha1.PodOwner
	// WaitingFor says what the node waits for, in one sentence; empty if for nothing.
	WaitingFor string
	// Drained is true when no pod of the tenant was left, seen while an index was enforced that let nobody in;
	// IndexVersion is that index's version.
	Drained      bool
	IndexVersion int64
	// Reason and Message say what stands in the way; empty if nothing does.
	Reason, Message string
	// ForeignPods are the pods of others on a locked node, as namespace/name, sorted.
	ForeignPods []string
}

// Ledger holds the last report of every node. It is safe for use from many goroutines.
type Ledger struct {
	mu       sync.RWMutex
	reports  map[string]Report
	watchers []func(node string)
}

// Watch registers a function that is called with a node's name after its report changed, on the reporter's
// goroutine. It must not block.
func (l *Ledger) Watch(f func(node string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers = append(l.watchers, f)
}

// Set replaces a node's report. The zero report removes it.
func (l *Ledger) Set(node string, r Report) {
	l.mu.Lock()
	before := l.reports[node]
	if reflect.DeepEqual(before, r) {
		l.mu.Unlock()
		return
	}
	if l.reports == nil {
		l.reports = map[string]Report{}
	}
	if reflect.DeepEqual(r, Report{}) {
		delete(l.reports, node)
	} else {
		l.reports[node] = r
	}
	watchers := l.watchers
	l.mu.Unlock()
	for _, f := range watchers {
		f(node)
	}
}

// Get returns a node's report; the zero report if there is none.
func (l *Ledger) Get(node string) Report {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.reports[node]
}

// Drained returns the nodes that were reported drained, with the version of the index that was enforced then.
func (l *Ledger) Drained() map[string]int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	drained := map[string]int64{}
	for node, r := range l.reports {
		if r.Drained {
			drained[node] = r.IndexVersion
		}
	}
	return drained
}
