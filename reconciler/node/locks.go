package node

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

const (
	// The second time that a lock is put back, this pause comes before it, and twice as long a one each time after.
	firstPause, longestPause = time.Second, 5 * time.Minute
	// settled is how long a lock must have stood for the count to begin anew.
	settled = 10 * time.Minute
)

// Locks says how often a node was given one and the same lock: more than once is a lock that somebody took off.
type Locks struct {
	// Count is how often, and Last when it was the last time.
	Count int
	Last  time.Time
	// Suspect names who seems to have taken it off before; empty if nobody is on record.
	Suspect string
}

// pause returns how long to wait before the lock is put on again. A controller that keeps removing it is not fought in
// a loop; the fence holds meanwhile.
func (l Locks) pause(now time.Time) time.Duration {
	since := now.Sub(l.Last)
	if l.Count < 2 || since >= settled {
		return 0
	}
	pause := longestPause
	if shift := l.Count - 2; shift < 16 {
		pause = min(longestPause, firstPause<<shift)
	}
	return max(0, pause-since)
}

// lockRemoved says who seems to take the lock off.
func (s Snapshot) lockRemoved() string {
	return fmt.Sprintf("node %s lost its lock more than once%s; it is put back with growing pauses, and the API server "+
		"goes on refusing foreign pods there; stop what removes it", s.Node.Name, s.Locks.Suspect)
}

// suspect names who wrote the node last since a time, besides this operator; empty if nobody is on record. Who removes a
// field is not: the API server keeps the fields that a manager has set, and forgets one that has none (Kubernetes, "Field
// Management"). So it is they only if they have set something on the node, too.
func suspect(node *corev1.Node, since time.Time) string {
	last, name := since.Truncate(time.Second), ""
	for _, entry := range node.ManagedFields {
		if entry.Manager == v1alpha1.FieldManager || entry.Subresource != "" || entry.Time == nil || entry.Time.Time.Before(last) {
			continue
		}
		last, name = entry.Time.Time, entry.Manager
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (besides the operator, %s wrote the node last)", name)
}

// lockCounts remembers the Locks of each node. It need not survive a restart: the count begins anew.
type lockCounts struct {
	mu    sync.Mutex
	nodes map[string]lockCount
}

type lockCount struct {
	key lockKey
	Locks
}

// lockKey is what one lock is: a changed spec asks for another one.
type lockKey struct {
	node, reservation types.UID
	generation        int64
}

func keyOf(s Snapshot) lockKey {
	return lockKey{node: s.Node.UID, reservation: s.Reservation.UID, generation: s.Reservation.Generation}
}

func (c *lockCounts) of(s Snapshot) Locks {
	if s.Reservation == nil {
		return Locks{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[s.Node.Name]; n.key == keyOf(s) {
		return n.Locks
	}
	return Locks{}
}

// locked notes that the lock was put on, and returns who seems to have taken it off. The node is the API server's answer.
func (c *lockCounts) locked(s Snapshot, node *corev1.Node) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[s.Node.Name]
	if n.key != keyOf(s) || s.Now.Sub(n.Last) >= settled {
		n = lockCount{key: keyOf(s)}
	}
	if n.Count > 0 {
		n.Suspect = suspect(node, n.Last)
	}
	n.Count, n.Last = n.Count+1, s.Now
	if c.nodes == nil {
		c.nodes = map[string]lockCount{}
	}
	c.nodes[s.Node.Name] = n
	return n.Suspect
}

func (c *lockCounts) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.nodes, node)
}
