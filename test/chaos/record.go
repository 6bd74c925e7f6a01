package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/cluster"
)

// change is one change of a Node, a Pod or the index.
type change struct {
	// version is the resource version that it made. etcd counts the changes of all kinds in one row.
	version uint64
	// object is as it is then, or was last if it is gone.
	object client.Object
	gone   bool
}

// recorder notes every change, from watches.
type recorder struct {
	client  kubernetes.Interface
	mu      sync.Mutex
	changes map[uint64]change
	broken  error
	writes  []write
}

// write is a write of the operator's that the API server accepted, or that it may have accepted: the answer was lost.
type write struct {
	cluster.Write
	lost bool
}

// record starts a recorder that lives as long as the context.
func record(ctx context.Context, c *cluster.Cluster) (*recorder, error) {
	typed, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	r := &recorder{client: typed, changes: map[uint64]change{}}
	core := typed.CoreV1()
	there, err := core.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range there.Items {
		r.note(&there.Items[i], false)
	}
	for _, w := range []cache.WatchFuncWithContext{
		core.Nodes().Watch, core.Pods("").Watch, core.ConfigMaps(v1alpha1.OperatorNamespace).Watch,
	} {
		events, err := watchtools.NewRetryWatcherWithContext(ctx, there.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: w})
		if err != nil {
			return nil, err
		}
		go func() {
			for e := range events.ResultChan() {
				o, ok := e.Object.(client.Object)
				switch {
				case e.Type == watch.Error:
					r.fail(fmt.Errorf("a watch broke: %v", e.Object))
				case ok && e.Type != watch.Bookmark:
					r.note(o, e.Type == watch.Deleted)
				}
			}
			if ctx.Err() == nil {
				r.fail(fmt.Errorf("a watch ended"))
			}
		}()
	}
	return r, nil
}

// catchUp waits until the watches have told of every node and of the index as they are now, and of all that happened to
// pods: of one that is made last, since most of the others are gone.
func (r *recorder) catchUp(ctx context.Context) error {
	nodes, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	index, err := r.client.CoreV1().ConfigMaps(v1alpha1.OperatorNamespace).Get(ctx, v1alpha1.IndexName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	marker := pod(stranger, "")
	marker.Name, marker.GenerateName, marker.Spec.SchedulerName = "", "marker-", "nobody"
	if marker, err = r.client.CoreV1().Pods(stranger).Create(ctx, marker, metav1.CreateOptions{}); err != nil {
		return err
	}
	wanted := []client.Object{index, marker}
	for i := range nodes.Items {
		wanted = append(wanted, &nodes.Items[i])
	}
	for _, o := range wanted {
		for began := time.Now(); !r.has(o); time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > patience {
				return fmt.Errorf("the watches do not tell of %s", o.GetName())
			}
		}
	}
	return nil
}

func (r *recorder) has(o client.Object) bool {
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	_, seen := r.changes[version]
	return seen || err != nil || r.broken != nil
}

func (r *recorder) note(o client.Object, gone bool) {
	if m, ok := o.(*corev1.ConfigMap); ok && m.Name != v1alpha1.IndexName {
		return
	}
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		r.fail(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes[version] = change{version, o, gone}
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = err
	}
}

// wrote notes a write.
func (r *recorder) wrote(w write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, w)
}

// all waits for the watches and returns what was recorded, in order. It is an error if something may be missing.
func (r *recorder) all(ctx context.Context) ([]change, []write, error) {
	if err := r.catchUp(ctx); err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []change
	for _, version := range slices.Sorted(maps.Keys(r.changes)) {
		out = append(out, r.changes[version])
	}
	return out, slices.Clone(r.writes), r.broken
}
