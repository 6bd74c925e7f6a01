package commit

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/apply"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
	"github.com/reservation-operator/reservation-operator/source/forge"
)

// recheck is how long a commit that was not applied for a known cause waits until it is tried again as a whole, if
// neither the repository nor the source changes meanwhile: the cause may lie in the cluster and be cured there.
const recheck = 30 * time.Second

// resync is how long a commit that was applied, or whose rendering took too long, waits until the whole way is gone
// again. Reservations and ReservationBindings are watched, and an edit of one is undone at once; this is for the
// Namespaces, ResourceQuotas and LimitRanges, which are not: a watch on them would hold those of the whole cluster in
// memory. It costs a fetch and a dry run per object, and writes nothing where nothing differs.
const resync = 10 * time.Minute

// memory is what the reconciler knows of a source beyond its status. It saves work and writes; losing it costs one
// full pass.
type memory struct {
	uid types.UID

	// looked is when the repository was last looked at with an answer, trouble what the answer was if it was a refusal
	// that only a person can cure.
	looked  time.Time
	trouble *verdict
	// verdict is what the last full pass came to; nil if it is to be tried again.
	verdict *verdict

	// reservations and bindings are what the last full pass wrote or found, deleted what it pruned, kept what it has
	// yet to prune. notes go with the source's message as long as nothing changes.
	reservations, bindings map[types.NamespacedName]State
	deleted                map[types.UID]bool
	kept                   []apply.Entry
	notes, keptNotes       []string

	// suspended says that the source was suspended when it was last in hand.
	suspended bool

	// wrote is when the progress of the nodes was last written, told what the forge was last told.
	wrote time.Time
	told  told
}

func (m *memory) allNotes() []string { return slices.Concat(m.notes, m.keptNotes) }

// verdict is what a full pass came to.
type verdict struct {
	revision   string
	generation int64
	at         time.Time
	// outcome is why the commit is not applied; nil if it is.
	outcome *report.Outcome
	// awaiting says that it will be once objects that are being deleted are gone.
	awaiting bool
	// costly says that it took too long to render, and nothing in the cluster can cure that.
	costly bool
}

// stale reports whether the whole way is to be gone again although nothing is known to have changed.
func (v *verdict) stale(now time.Time) bool {
	after := recheck
	if v.outcome == nil || v.costly {
		after = resync
	}
	return now.Sub(v.at) >= after
}

type told struct {
	revision string
	state    forge.State
	text     string
}

// holds reports whether the verdict still speaks of the source as it is.
func (v *verdict) holds(s *v1alpha1.ReservationSource) bool {
	return v != nil && v.generation == s.Generation
}

// memories holds the memory of each source, and which objects of it were seen to go. Only the worker that has a
// source in hand touches its memory; the event handlers only add to what went.
type memories struct {
	mu   sync.Mutex
	of   map[string]*memory
	gone map[string]map[types.UID]bool
}

// get returns the memory of a source: a new one for a source that was made again.
func (m *memories) get(s *v1alpha1.ReservationSource) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]*memory{}
	}
	if mem := m.of[s.Name]; mem != nil && mem.uid == s.UID {
		return mem
	}
	m.of[s.Name] = &memory{uid: s.UID}
	return m.of[s.Name]
}

// forget drops what is known of a source.
func (m *memories) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, name)
	delete(m.gone, name)
}

// lose notes that an object of a source is gone, or is the source's no more.
func (m *memories) lose(source string, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone == nil {
		m.gone = map[string]map[types.UID]bool{}
	}
	if m.gone[source] == nil {
		m.gone[source] = map[types.UID]bool{}
	}
	m.gone[source][uid] = true
}

// lost returns what was noted of a source since the last call.
func (m *memories) lost(source string) map[types.UID]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost := m.gone[source]
	delete(m.gone, source)
	return lost
}
