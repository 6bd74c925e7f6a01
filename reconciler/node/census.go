package node

import (
	"context"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
)

const (
	// censusDelay is how long after a lock its foreign pods are counted, and censusSpread over how much more time the
	// nodes of a large Reservation are spread: locking goes first, and the answer is in no hurry, since the fence
	// lets no new ones in.
	censusDelay  = 5 * time.Second
	censusSpread = 15 * time.Second
	// recount is how often they are counted again while there are any.
	recount = 30 * time.Second
)

// census remembers on which locked nodes the foreign pods were counted, and when they are due on the others.
type census struct {
	mu    sync.Mutex
	nodes map[string]count
}

type count struct {
	uid         types.UID
	reservation string
	due         time.Time // zero: counted, and none found
}

// wait returns how long until the node is due; zero means now, and false never.
func (c *census) wait(s Snapshot) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, known := c.nodes[s.Node.Name]
	if !known || n.uid != s.Node.UID || n.reservation != s.Grant.Reservation {
		hash := fnv.New32a()
		hash.Write([]byte(s.Node.Name))
		spread := time.Duration(hash.Sum32()%1000) * censusSpread / 1000
		n = count{uid: s.Node.UID, reservation: s.Grant.Reservation, due: s.Now.Add(censusDelay + spread)}
		c.set(s.Node.Name, n)
	}
	return max(0, n.due.Sub(s.Now)), !n.due.IsZero()
}

// counted notes the answer. While there are foreign pods, the node is due again.
func (c *census) counted(s Snapshot, foreign bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := count{uid: s.Node.UID, reservation: s.Grant.Reservation}
	if foreign {
		n.due = s.Now.Add(recount)
	}
	c.set(s.Node.Name, n)
}

func (c *census) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.nodes, node)
}

func (c *census) set(node string, n count) {
	if c.nodes == nil {
		c.nodes = map[string]count{}
	}
	c.nodes[node] = n
}

// countForeigners reports the pods of others on a node that is locked as it should be.
func (r *Reconciler) countForeigners(ctx context.Context, s Snapshot) (ctrl.Result, error) {
	if s.Reservation == nil || !lock.Holds(s.Node, s.Reservation) {
		r.census.forget(s.Node.Name)
		r.Ledger.Set(s.Node.Name, ledger.Report{})
		return ctrl.Result{}, nil
	}
	wait, due := r.census.wait(s)
	if !due || wait > 0 {
		said := r.Ledger.Get(s.Node.Name)
		r.Ledger.Set(s.Node.Name, ledger.Report{ForeignPods: said.ForeignPods})
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	pods, err := r.podsOn(ctx, s.Node.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	foreign := []string{}
	for i := range pods {
		if Foreign(&pods[i], s.Node, s.Reservation.AcceptedNamespaces(), r.Exempt) {
			foreign = append(foreign, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	r.census.counted(s, len(foreign) > 0)
	if len(foreign) == 0 {
		r.Ledger.Set(s.Node.Name, ledger.Report{})
		return ctrl.Result{}, nil
	}
	slices.Sort(foreign)
	r.Ledger.Set(s.Node.Name, ledger.Report{ForeignPods: foreign})
	return ctrl.Result{RequeueAfter: recount}, nil
}
