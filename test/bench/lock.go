package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/cluster"
)

// lock measures locking 1,000 nodes, and the operator's memory while they are locked for the last time.
func lock(ctx context.Context) error { return lockMany(ctx, 1000, 5) }

// lockMost measures locking 5,000 nodes.
func lockMost(ctx context.Context) error { return lockMany(ctx, 5000, 3) }

// lockMany measures locking many nodes, from the creation of the Reservation to the last node's label, against a loop
// that patches the same nodes at the same concurrency; some rounds in turn.
func lockMany(ctx context.Context, nodes, rounds int) error {
	c, err := cluster.Start(ctx, cluster.Options{Bare: true})
	if err != nil {
		return err
	}
	defer c.Stop()
	all := names("lock", nodes)
	if err := register(ctx, c, all); err != nil {
		return err
	}
	if err := c.Operator.Start(ctx, "--node-concurrency", strconv.Itoa(concurrency)); err != nil {
		return err
	}
	watched, err := watchNodes(ctx, c)
	if err != nil {
		return err
	}
	var ours, raw []time.Duration
	var mebibytes int
	for range rounds {
		r, took, err := lockOnce(ctx, c, watched, all)
		if err != nil {
			return err
		}
		ours = append(ours, took)
		if mebibytes, err = memory(c); err != nil {
			return err
		}
		if err := remove(ctx, c, watched, r); err != nil {
			return err
		}
		began := time.Now()
		if err := each(ctx, all, rawPatch(c.Client)); err != nil {
			return err
		}
		raw = append(raw, time.Since(began))
		if err := each(ctx, all, rawClear(c.Client)); err != nil {
			return err
		}
	}
	o, b := median(ours), median(raw)
	figure(fmt.Sprintf("lock_%d_nodes", nodes), o.Round(time.Millisecond).String(), b.Round(time.Millisecond).String(), ratio(o, b), "1.10", ratio(o, b) <= 1.10)
	fmt.Printf("figure operator_memory_%d_nodes ours=%dMiB baseline=- ratio=- goal=-\n", nodes, mebibytes)
	return nil
}

// lockOnce creates a Reservation of all nodes and waits for the last lock. It returns the Reservation and how long it took.
func lockOnce(ctx context.Context, c *cluster.Cluster, watched *counter, nodes []string) (*v1alpha1.Reservation, time.Duration, error) {
	r := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "lock"},
		Spec:       v1alpha1.ReservationSpec{Tenant: "lock", ReservedNodes: nodes},
	}
	began := time.Now()
	if err := c.Client.Create(ctx, r); err != nil {
		return nil, 0, err
	}
	err := watched.await(ctx, "lock", len(nodes))
	return r, time.Since(began), err
}

// remove deletes a Reservation and waits until its nodes are free and it is gone.
func remove(ctx context.Context, c *cluster.Cluster, watched *counter, r *v1alpha1.Reservation) error {
	if err := c.Client.Delete(ctx, r); err != nil {
		return err
	}
	if err := watched.await(ctx, r.Spec.Tenant, 0); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(r), r); client.IgnoreNotFound(err) == nil && err != nil {
			return nil
		}
	}
	return fmt.Errorf("reservation %s is still there", r.Name)
}

// memory returns the operator's resident memory in MiB.
func memory(c *cluster.Cluster) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Operator.PID()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kib, err := strconv.Atoi(fields[1])
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("the kernel does not say how much memory process %d has", c.Operator.PID())
}
