package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/reservation-operator/reservation-operator/test/cluster"
)

// replica is an operator that is started again whenever it ends, as a kubelet would, each time through a door of its own.
type replica struct {
	*cluster.Operator
	cluster *cluster.Cluster
	name    string
	flags   []string
	// open prepares the door of the next run.
	open func(*door)
	// excused says that an end with this exit status is as it should be; -1 is a kill.
	excused func(status int) bool

	// runs counts its starts.
	runs atomic.Int64
}

// keep runs the operator until the context ends, and returns what it said each time that it ended without an excuse.
func (r *replica) keep(ctx context.Context) (crashes []string, err error) {
	defer r.Kill()
	for ctx.Err() == nil {
		d, err := newDoor(ctx, r.cluster, fmt.Sprintf("%s-%d", r.name, r.runs.Add(1)))
		if err != nil {
			return crashes, err
		}
		r.open(d)
		if err := r.Launch(ctx, append([]string{"--kubeconfig", d.kubeconfig}, r.flags...)...); err != nil {
			return crashes, err
		}
		ended := make(chan int, 1)
		go func() { ended <- r.Wait() }()
		select {
		case <-ctx.Done():
			r.Kill()
		case status := <-ended:
			if !r.excused(status) {
				crashes = append(crashes, fmt.Sprintf("the operator %s ended by itself with status %d; its log ends with:\n%s", r.name, status, r.LogTail()))
				time.Sleep(time.Second) // no hot loop
			}
		}
		d.close()
	}
	return crashes, nil
}
