package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/reservation-operator/reservation-operator/test/cluster"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// kills ends the operator after each of its writes, before it hears that it was accepted: between every two of them.
var kills = trouble{name: "kills", replicas: func(l *life, r *recorder, t *tally) ([]*replica, func(context.Context, int) error) {
	o := &replica{Operator: l.Operator, cluster: l.Cluster, name: "operator", excused: killed}
	o.open = func(d *door) {
		d.after = func(w write) bool {
			r.wrote(w)
			o.Kill()
			t.kills.Add(1)
			return true
		}
	}
	return []*replica{o}, nil
}}

func killed(status int) bool { return status == -1 }

// outages stops the API server in the middle of releases, for as long as pause says, and etcd, for a moment.
func outages(pause time.Duration) trouble {
	away := func(l *life, t *tally, component string, end func(string) error, pause time.Duration) error {
		time.Sleep(300 * time.Millisecond) // into the middle
		if err := end(component); err != nil {
			return err
		}
		t.outages.Add(1)
		time.Sleep(pause)
		return l.StartComponent(component)
	}
	return trouble{
		name: "outages",
		// Without its cache of these an API server that was started again knows what was before, and no watch has a gap.
		apiServer: map[string]string{"watch-cache-sizes": "nodes#0,pods#0,configmaps#0"},
		replicas: func(l *life, r *recorder, t *tally) ([]*replica, func(context.Context, int) error) {
			o := &replica{Operator: l.Operator, cluster: l.Cluster, name: "operator", excused: func(int) bool { return false }}
			o.open = func(d *door) { d.after = func(w write) bool { r.wrote(w); return false } }
			return []*replica{o}, func(_ context.Context, chapter int) error {
				switch chapter {
				case 2:
					return away(l, t, controlplane.APIServer, l.KillComponent, pause)
				case 3:
					return away(l, t, controlplane.Etcd, l.KillComponent, time.Second)
				case 4:
					return away(l, t, controlplane.APIServer, l.StopComponent, pause)
				case 5:
					return away(l, t, controlplane.Etcd, l.StopComponent, time.Second)
				}
				return nil
			}
		},
	}
}

// replicas has two operators, of which the one that leads is stopped in the middle of a write to a node, or of an eviction,
// until the other one has taken the lease and written something. Then that write goes on, and whatever else the first one
// does before it ends.
var replicas = trouble{name: "replicas", replicas: func(l *life, r *recorder, t *tally) ([]*replica, func(context.Context, int) error) {
	var armed atomic.Bool
	var wrote [2]atomic.Int64
	var leads atomic.Int64 // who wrote the lease last: only the leader does, and who takes it
	leads.Store(-1)
	type loss struct {
		of    *replica
		runs  int64 // its runs until then
		taken bool
	}
	lost := make(chan loss, 1)
	var both []*replica
	for i, o := range []*cluster.Operator{l.Operator, l.NewOperator("second")} {
		one := &replica{Operator: o, cluster: l.Cluster, name: []string{"first", "second"}[i], flags: []string{
			"--enable-leader-election", "--leader-election-lease-duration=3s", "--leader-election-renew-deadline=2s",
			"--leader-election-retry-period=500ms",
		}}
		// Who has lost the lease ends with an error, and is started again.
		one.excused = func(status int) bool { return status == 1 }
		one.open = func(d *door) {
			d.before = func(asked request) error {
				if asked.Resource == "leases" && asked.Verb != "" {
					leads.Store(int64(i))
				}
				late := asked.writes && (asked.Resource == "nodes" || asked.Resource == "pods/eviction")
				if !late || leads.Load() != int64(i) || !armed.CompareAndSwap(true, false) {
					return nil
				}
				runs, before := one.runs.Load(), wrote[1-i].Load()
				one.Signal(syscall.SIGSTOP)
				taken := func() bool { return leads.Load() != int64(i) && wrote[1-i].Load() > before }
				for began := time.Now(); !taken() && time.Since(began) < leaseLost; time.Sleep(100 * time.Millisecond) {
				}
				lost <- loss{one, runs, taken()}
				one.Signal(syscall.SIGCONT)
				return nil
			}
			d.after = func(w write) bool { wrote[i].Add(1); r.wrote(w); return false }
		}
		both = append(both, one)
	}
	return both, func(ctx context.Context, _ int) error {
		armed.Store(true)
		var of loss
		select {
		case of = <-lost:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !of.taken {
			return fmt.Errorf("nobody took the lease of %s", of.of.name)
		}
		t.outages.Add(1)
		for began := time.Now(); of.of.runs.Load() == of.runs; time.Sleep(100 * time.Millisecond) {
			if time.Since(began) > leaseLost {
				return fmt.Errorf("%s goes on without the lease", of.of.name)
			}
		}
		return nil
	}
}}

// leaseLost is how long it may take until somebody else has taken a lease of three seconds, or its holder has ended.
const leaseLost = 30 * time.Second
