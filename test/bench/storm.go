package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// storm measures 500 nodes that are released at once: from the moment that a node's last pod is gone, as a watch shows
// it, to its last patch. The baseline patches the same nodes by hand at the same concurrency: how long the last one
// waits for its turn.
func storm(ctx context.Context) error {
	const nodes, goal = 500, time.Second
	f, err := newFleet(ctx, nodes)
	if err != nil {
		return err
	}
	defer f.Stop()
	if err := each(ctx, f.nodes, func(ctx context.Context, name string) error {
		p := benchPod(fleetTenant, 0)
		p.Name, p.Spec.NodeName, p.Spec.SchedulerName = name, name, ""
		return f.Client.Create(ctx, p)
	}); err != nil {
		return err
	}
	gone, freed, err := f.times(ctx)
	if err != nil {
		return err
	}
	if err := f.Client.DeleteAllOf(ctx, &v1alpha1.Reservation{}); err != nil {
		return err
	}
	if err := each(ctx, f.nodes, f.draining); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // the operator's watches of the nodes' pods stand
	zero := int64(0)
	if err := each(ctx, f.nodes, func(ctx context.Context, name string) error {
		p := benchPod(fleetTenant, 0)
		p.Name = name
		return f.Client.Delete(ctx, p, &client.DeleteOptions{GracePeriodSeconds: &zero})
	}); err != nil {
		return err
	}
	if err := f.watched.await(ctx, fleetTenant, 0); err != nil {
		return err
	}
	time.Sleep(time.Second) // for the watches here
	var took []time.Duration
	for _, name := range f.nodes {
		gone, freed := gone.of(name), freed.of(name)
		if gone.IsZero() || freed.Before(gone) {
			return fmt.Errorf("a watch does not tell when node %s was released", name)
		}
		took = append(took, freed.Sub(gone))
	}
	began := time.Now()
	if err := each(ctx, f.nodes, rawPatch(f.Client)); err != nil {
		return err
	}
	raw := time.Since(began)
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	figure("release_500_nodes_p99", p99.Round(time.Millisecond).String(), raw.Round(time.Millisecond).String(), ratio(p99, raw), goal.String(), p99 <= goal)
	return nil
}

// draining waits until a node's release has begun.
func (f *fleet) draining(ctx context.Context, name string) error {
	n := &corev1.Node{}
	for deadline := time.Now().Add(time.Minute); n.Annotations[v1alpha1.AnnotationReleasingSince] == ""; time.Sleep(50 * time.Millisecond) {
		if err := f.Client.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the release of %s does not begin", name)
		}
	}
	return nil
}

// moments are when something was seen of which node.
type moments struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (m *moments) note(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.at[node]; !known {
		m.at[node] = time.Now()
	}
}

func (m *moments) of(node string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at[node]
}

// times notes when each node's pod is gone and when the node has lost its label, from watches.
func (f *fleet) times(ctx context.Context) (gone, freed *moments, err error) {
	gone, freed = &moments{at: map[string]time.Time{}}, &moments{at: map[string]time.Time{}}
	c, err := client.NewWithWatch(f.Config, client.Options{Scheme: f.Client.Scheme()})
	if err != nil {
		return nil, nil, err
	}
	pods, err := c.Watch(ctx, &corev1.PodList{})
	if err != nil {
		return nil, nil, err
	}
	nodes, err := c.Watch(ctx, &corev1.NodeList{})
	if err != nil {
		return nil, nil, err
	}
	go func() {
		for e := range pods.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && e.Type == watch.Deleted {
				gone.note(p.Spec.NodeName)
			}
		}
	}()
	go func() {
		for e := range nodes.ResultChan() {
			if n, ok := e.Object.(*corev1.Node); ok && e.Type == watch.Modified && n.Labels[v1alpha1.LabelTenant] == "" {
				freed.note(n.Name)
			}
		}
	}()
	return gone, freed, nil
}
