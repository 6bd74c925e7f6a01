package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/cluster"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// concurrency is how many nodes the operator and the baseline work on at once.
const concurrency = 16

// names returns n node names with a prefix.
func names(prefix string, n int) []string {
	out := make([]string, 0, n)
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%05d", prefix, i))
	}
	return out
}

// register creates the nodes.
func register(ctx context.Context, c *cluster.Cluster, nodes []string) error {
	return each(ctx, nodes, func(ctx context.Context, name string) error {
		return c.Client.Create(ctx, controlplane.Node(name, nil))
	})
}

// each calls f for every name, a few at once.
func each(ctx context.Context, names []string, f func(ctx context.Context, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for _, name := range names {
		group.Go(func() error { return f(ctx, name) })
	}
	return group.Wait()
}

// What the baseline writes is as long as a lock and means nothing to the operator, which would take a real one for a lost
// grant and release it.
const (
	rawLabel      = "baseline.tenant"
	rawAnnotation = "baseline.coreweave.cloud/reservation"
	rawEffect     = "baseline.coreweave.cloud/taint-effect"
	rawTaint      = "baseline"
)

// rawPatch does by hand what locks a node: one merge patch with label, taint and annotations.
func rawPatch(c client.Client) func(ctx context.Context, name string) error {
	return patching(c, fmt.Sprintf(`{"metadata":{"labels":{%q:"raw"},"annotations":{%q:"raw",%q:"NoSchedule"}},`+
		`"spec":{"taints":[{"key":%q,"value":"raw","effect":"NoSchedule"}]}}`, rawLabel, rawAnnotation, rawEffect, rawTaint))
}

// rawClear undoes rawPatch.
func rawClear(c client.Client) func(ctx context.Context, name string) error {
	return patching(c, fmt.Sprintf(`{"metadata":{"labels":{%q:null},"annotations":{%q:null,%q:null}},"spec":{"taints":null}}`,
		rawLabel, rawAnnotation, rawEffect))
}

// patching returns a function that patches a node.
func patching(c client.Client, body string) func(ctx context.Context, name string) error {
	return func(ctx context.Context, name string) error {
		node := &corev1.Node{}
		node.Name = name
		return c.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(body)))
	}
}

// counter watches the nodes and knows how many bear which tenant's label.
type counter struct {
	mu      sync.Mutex
	tenants map[string]string // by node
	counts  map[string]int    // by tenant
	changed chan struct{}
}

// watchNodes starts a counter that lives as long as the context.
func watchNodes(ctx context.Context, c *cluster.Cluster) (*counter, error) {
	withWatch, err := client.NewWithWatch(c.Config, client.Options{Scheme: c.Client.Scheme()})
	if err != nil {
		return nil, err
	}
	w, err := withWatch.Watch(ctx, &corev1.NodeList{})
	if err != nil {
		return nil, err
	}
	k := &counter{tenants: map[string]string{}, counts: map[string]int{}, changed: make(chan struct{}, 1)}
	go func() {
		for e := range w.ResultChan() {
			node, ok := e.Object.(*corev1.Node)
			if !ok || e.Type == watch.Bookmark {
				continue
			}
			k.mu.Lock()
			k.counts[k.tenants[node.Name]]--
			k.tenants[node.Name] = node.Labels[v1alpha1.LabelTenant]
			k.counts[k.tenants[node.Name]]++
			k.mu.Unlock()
			select {
			case k.changed <- struct{}{}:
			default:
			}
		}
	}()
	return k, nil
}

// await waits until exactly n nodes bear the tenant's label.
func (k *counter) await(ctx context.Context, tenant string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		if k.count(tenant) == n {
			return nil
		}
		select {
		case <-k.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes bear the label of %s: %w", k.count(tenant), n, tenant, ctx.Err())
		}
	}
}

func (k *counter) count(tenant string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counts[tenant]
}
