package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/cluster"
)

// fleet is a cluster whose nodes are all reserved, ten for each Reservation, and locked.
type fleet struct {
	*cluster.Cluster
	nodes, reservations []string
	watched             *counter
}

const (
	perReservation = 10
	fleetTenant    = "fleet"
)

func newFleet(ctx context.Context, nodes int, flags ...string) (*fleet, error) {
	c, err := cluster.Start(ctx, cluster.Options{Bare: true, Audit: true})
	if err != nil {
		return nil, err
	}
	f := &fleet{Cluster: c, nodes: names("fleet", nodes), reservations: names("rsv", nodes/perReservation)}
	if err := f.fill(ctx, flags); err != nil {
		_ = c.Stop()
		return nil, err
	}
	return f, nil
}

func (f *fleet) fill(ctx context.Context, flags []string) error {
	if err := register(ctx, f.Cluster, f.nodes); err != nil {
		return err
	}
	if err := namespace(ctx, f.Cluster, fleetTenant); err != nil {
		return err
	}
	if err := f.Operator.Start(ctx, flags...); err != nil {
		return err
	}
	var err error
	if f.watched, err = watchNodes(ctx, f.Cluster); err != nil {
		return err
	}
	for i, name := range f.reservations {
		if err := f.Client.Create(ctx, &v1alpha1.Reservation{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.ReservationSpec{Tenant: fleetTenant, ReservedNodes: f.nodes[i*perReservation : (i+1)*perReservation]},
		}); err != nil {
			return err
		}
	}
	return f.watched.await(ctx, fleetTenant, len(f.nodes))
}

// settle waits until the operator has nothing left to do, and for its counts of foreign pods, which come seconds later.
func (f *fleet) settle(ctx context.Context) error {
	for quiet := 0; quiet < 3; {
		before, err := f.Operator.Usage(ctx)
		if err != nil {
			return err
		}
		time.Sleep(5 * time.Second)
		after, err := f.Operator.Usage(ctx)
		if err != nil {
			return err
		}
		if quiet++; after.Requests-before.Requests > 10 {
			quiet = 0
		}
	}
	return nil
}

// change measures what one changed node costs the operator, in processor time and requests, where 1,000 nodes are
// reserved and where 10,000 are; then, in the large cluster, its memory and what it does at rest.
func change(ctx context.Context) error {
	small, err := newFleet(ctx, 1000)
	if err != nil {
		return err
	}
	base, err := small.changes(ctx)
	_ = small.Stop()
	if err != nil {
		return err
	}
	large, err := newFleet(ctx, 10000)
	if err != nil {
		return err
	}
	defer large.Stop()
	ours, err := large.changes(ctx)
	if err != nil {
		return err
	}
	const goal = 1.2
	cpu, requests := ratio(ours.CPU, base.CPU), float64(ours.Requests)/float64(base.Requests)
	figure("change_cpu_10000_nodes", ours.CPU.Round(10*time.Microsecond).String(), base.CPU.Round(10*time.Microsecond).String(), cpu, "1.20", cpu <= goal)
	figure("change_requests_10000_nodes", fmt.Sprint(ours.Requests), fmt.Sprint(base.Requests), requests, "1.20", requests <= goal)
	if err := large.rest(ctx); err != nil {
		return err
	}
	return large.memory(ctx)
}

// changes gives a node back and takes it again, and returns what 20 such changes cost by the change; the requests are
// of all of them.
func (f *fleet) changes(ctx context.Context) (cluster.Usage, error) {
	const rounds = 10
	if err := f.settle(ctx); err != nil {
		return cluster.Usage{}, err
	}
	before, err := f.Operator.Usage(ctx)
	if err != nil {
		return cluster.Usage{}, err
	}
	own := f.nodes[:perReservation]
	for range rounds {
		for _, nodes := range [][]string{own[1:], own} {
			if err := f.name(ctx, nodes); err != nil {
				return cluster.Usage{}, err
			}
			if err := f.watched.await(ctx, fleetTenant, len(f.nodes)-len(own)+len(nodes)); err != nil {
				return cluster.Usage{}, err
			}
			time.Sleep(time.Second) // what follows the lock belongs to the change
		}
	}
	after, err := f.Operator.Usage(ctx)
	return cluster.Usage{CPU: (after.CPU - before.CPU) / (2 * rounds), Requests: after.Requests - before.Requests}, err
}

// name has the first Reservation name exactly these nodes.
func (f *fleet) name(ctx context.Context, nodes []string) error {
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: f.reservations[0]}}
	if err := f.Client.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
		return err
	}
	before := r.DeepCopy()
	r.Spec.ReservedNodes = nodes
	return f.Client.Patch(ctx, r, client.MergeFrom(before))
}

// rest measures the operator while every kubelet reports its node once in five minutes, as they do where nothing
// changes (Kubernetes, "Heartbeats"); their leases are nobody's business here.
func (f *fleet) rest(ctx context.Context) error {
	const window = time.Minute
	if err := f.settle(ctx); err != nil {
		return err
	}
	written, err := f.Writes()
	if err != nil {
		return err
	}
	before, err := f.Operator.Usage(ctx)
	if err != nil {
		return err
	}
	began, beats := time.Now(), 0
	tick := time.NewTicker(5 * time.Minute / time.Duration(len(f.nodes)))
	defer tick.Stop()
	for time.Since(began) < window {
		<-tick.C
		if err := f.beat(ctx, f.nodes[beats%len(f.nodes)]); err != nil {
			return err
		}
		beats++
	}
	after, err := f.Operator.Usage(ctx)
	if err != nil {
		return err
	}
	since, err := f.Writes()
	if err != nil {
		return err
	}
	for _, w := range since[len(written):] {
		fmt.Fprintf(os.Stderr, "written at rest: %s %s %s\n", w.Verb, w.Resource, w.Name)
	}
	writes, looks := len(since)-len(written), after.NodeReconciles-before.NodeReconciles
	fmt.Printf("figure rest_writes_10000_nodes ours=%d baseline=0 ratio=- goal=0%s\n", writes, missed(writes == 0))
	fmt.Printf("figure rest_node_reconciles_10000_nodes ours=%d baseline=%dheartbeats ratio=%.2f goal=0%s\n", looks, beats, float64(looks)/float64(beats), missed(looks == 0))
	share := float64(after.CPU-before.CPU) / float64(time.Since(began))
	fmt.Printf("figure rest_cpu_10000_nodes ours=%.2f%% baseline=%dheartbeats ratio=%.2f goal=1%%%s\n", 100*share, beats, share/0.01, missed(share <= 0.01))
	return nil
}

func (f *fleet) beat(ctx context.Context, name string) error {
	body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%q}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return f.Client.Status().Patch(ctx, n, client.RawPatch(types.StrategicMergePatchType, []byte(body)))
}

// memory fills the nodes with ten pods each, of a tenant that may, and reads the resident memory of a fresh operator
// once it is at rest.
func (f *fleet) memory(ctx context.Context) error {
	const goal = 200 << 20
	f.Operator.Kill()
	pods := names("pod", 10*len(f.nodes))
	if err := each(ctx, pods, func(ctx context.Context, name string) error {
		p := benchPod(fleetTenant, 0)
		var i int
		if _, err := fmt.Sscanf(name, "pod-%d", &i); err != nil {
			return err
		}
		p.Name, p.Spec.NodeName, p.Spec.SchedulerName = name, f.nodes[i%len(f.nodes)], ""
		return f.Client.Create(ctx, p)
	}); err != nil {
		return err
	}
	if err := f.Operator.Start(ctx); err != nil {
		return err
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	usage, err := f.Operator.Usage(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("figure operator_memory_10000_nodes_100000_pods_1000_reservations ours=%dMiB baseline=200MiB ratio=%.2f goal=1.00%s\n",
		usage.Resident>>20, float64(usage.Resident)/goal, missed(usage.Resident <= goal))
	return nil
}
