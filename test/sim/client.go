package sim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// cachedClient is the client of a replica: it reads from the replica's caches and writes to the server. What no
// reconciler calls is not there.
type cachedClient struct {
	client.Client
	replica *replica
}

// do makes one request that other actors may come before.
func (c cachedClient) do(ctx context.Context, write bool, f func(*task) error) error {
	t := taskOf(ctx)
	if err := t.gate(write); err != nil {
		return err
	}
	struck := write && t.strikes()
	if struck && !t.fault.arrived {
		return errFault
	}
	return c.call(t, f, struck)
}

// doAtOnce makes one of several requests that are under way at once.
func (c cachedClient) doAtOnce(ctx context.Context, name string, f func(*task) error) error {
	t := taskOf(ctx)
	if t.dead {
		return errDead
	}
	struck := t.strikesOne(name)
	if struck && !t.fault.arrived {
		return errFault
	}
	return c.call(t, f, struck)
}

func (c cachedClient) call(t *task, f func(*task) error, answerLost bool) error {
	server := c.replica.world.server
	server.mu.Lock()
	defer server.mu.Unlock()
	if err := f(t); err != nil || !answerLost {
		return err
	}
	return errFault
}

func (c cachedClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return c.do(ctx, false, func(t *task) error {
		k := kindOf(o)
		if k > bindings {
			panic(fmt.Sprintf("no cache of %T", o))
		}
		found := c.replica.caches[k].objects[keyFor(key.Namespace, key.Name)]
		if found == nil {
			return notFound(k, key.Name)
		}
		if r, ok := found.(*v1alpha1.Reservation); ok {
			t.saw.reservations[r.Name] = r
		}
		copyInto(found, o)
		return nil
	})
}

func (c cachedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.do(ctx, false, func(t *task) error {
		return fill(list, func(k kind) []string { return c.replica.caches[k].names() }, func(k kind, name string) client.Object {
			o := c.replica.caches[k].objects[name]
			t.remember(o)
			return o
		})
	})
}

func (t *task) remember(o client.Object) {
	switch o := o.(type) {
	case *corev1.Node:
		t.saw.cached[o.Name] = o
	case *v1alpha1.Reservation:
		if t.saw.reservations[o.Name] == nil { // what it asked for by name comes first
			t.saw.reservations[o.Name] = o
		}
	}
}

// fill makes a list of what is stored of its kind, in order of names.
func fill(list client.ObjectList, names func(kind) []string, get func(kind, string) client.Object) error {
	switch l := list.(type) {
	case *corev1.NodeList:
		for _, name := range names(nodes) {
			l.Items = append(l.Items, *get(nodes, name).(*corev1.Node))
		}
	case *v1alpha1.ReservationList:
		for _, name := range names(reservations) {
			l.Items = append(l.Items, *get(reservations, name).DeepCopyObject().(*v1alpha1.Reservation))
		}
	case *v1alpha1.ReservationBindingList:
		for _, name := range names(bindings) {
			l.Items = append(l.Items, *get(bindings, name).(*v1alpha1.ReservationBinding))
		}
	case *policyv1.PodDisruptionBudgetList:
		for _, name := range names(budgets) {
			l.Items = append(l.Items, *get(budgets, name).(*policyv1.PodDisruptionBudget))
		}
	default:
		return fmt.Errorf("the model lists no %T", list)
	}
	return nil
}

func (c cachedClient) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	return c.do(ctx, true, func(t *task) error {
		server := c.replica.world.server
		if server.get(kindOf(o), keyOf(o)) != nil {
			return apierrors.NewAlreadyExists(resource(o), o.GetName())
		}
		server.put(t, o.DeepCopyObject().(client.Object))
		copyInto(server.get(kindOf(o), keyOf(o)), o)
		return nil
	})
}

func (c cachedClient) Update(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
	return c.do(ctx, true, func(t *task) error {
		server := c.replica.world.server
		before := server.get(kindOf(o), keyOf(o))
		if before == nil {
			return notFound(kindOf(o), o.GetName())
		}
		if v := o.GetResourceVersion(); v != "" && v != before.GetResourceVersion() {
			return conflict(kindOf(o), o.GetName(), "the object has been modified")
		}
		server.put(t, o.DeepCopyObject().(client.Object))
		return nil
	})
}

// Patch writes nodes, one at a time, and the finalizers of reservations. Allocation writes those at once.
func (c cachedClient) Patch(ctx context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	write := func(t *task) error { return c.replica.world.server.patch(t, o, p, false) }
	if taskOf(ctx).what == "allocate" {
		return c.doAtOnce(ctx, keyOf(o), write)
	}
	return c.do(ctx, true, write)
}

// Delete deletes pods, several at once.
func (c cachedClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	return c.doAtOnce(ctx, "delete "+keyOf(o), func(t *task) error {
		server := c.replica.world.server
		pod := stored[*corev1.Pod](server, pods, keyOf(o))
		if pod == nil {
			return notFound(pods, keyOf(o))
		}
		if err := precondition(pod, options.Preconditions); err != nil {
			return err
		}
		c.replica.world.truth.deleted(t, pod, options.GracePeriodSeconds, true)
		server.delete(t, pods, keyOf(o), options.GracePeriodSeconds)
		return nil
	})
}

func (c cachedClient) Status() client.SubResourceWriter { return status{c: c} }

func (c cachedClient) SubResource(name string) client.SubResourceClient {
	if name != "eviction" {
		panic("the model knows no " + name)
	}
	return eviction{c: c}
}

func resource(o client.Object) schema.GroupResource {
	return schema.GroupResource{Resource: resources[kindOf(o)]}
}

type status struct {
	client.SubResourceWriter
	c cachedClient
}

func (s status) Patch(ctx context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.c.do(ctx, true, func(t *task) error { return s.c.replica.world.server.patch(t, o, p, true) })
}

type eviction struct {
	client.SubResourceClient
	c cachedClient
}

// Create evicts a pod; several are evicted at once.
func (e eviction) Create(ctx context.Context, pod, o client.Object, _ ...client.SubResourceCreateOption) error {
	options := o.(*policyv1.Eviction).DeleteOptions
	return e.c.doAtOnce(ctx, "evict "+keyOf(pod), func(t *task) error {
		world := e.c.replica.world
		before := stored[*corev1.Pod](world.server, pods, keyOf(pod))
		err := world.server.evict(t, keyOf(pod), options)
		if err == nil {
			world.truth.deleted(t, before, options.GracePeriodSeconds, false)
		}
		return err
	})
}

// liveReader reads past every cache.
type liveReader struct{ cachedClient }

func (l liveReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	read := func(t *task) error {
		k := kindOf(o)
		found := l.replica.world.server.get(k, keyFor(key.Namespace, key.Name))
		if found == nil {
			return notFound(k, key.Name)
		}
		if n, ok := found.(*corev1.Node); ok && t.what == "node" {
			t.saw.node = n
		}
		if r, ok := found.(*v1alpha1.Reservation); ok {
			t.remember(r)
		}
		if set, ok := o.(*metav1.PartialObjectMetadata); ok {
			set.Name, set.Namespace, set.UID = found.GetName(), found.GetNamespace(), found.GetUID()
			return nil
		}
		copyInto(found, o)
		return nil
	}
	if taskOf(ctx).what == "allocate" && kindOf(o) == nodes {
		return l.doAtOnce(ctx, key.Name, read) // allocation reads those at once
	}
	return l.do(ctx, false, read)
}

func (l liveReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	server := l.replica.world.server
	get := func(t *task) error {
		return fill(list, server.names, func(k kind, name string) client.Object {
			t.remember(server.get(k, name))
			return server.get(k, name)
		})
	}
	switch list := list.(type) {
	case *corev1.PodList:
		node, _ := options.FieldSelector.RequiresExactMatch("spec.nodeName")
		return l.do(ctx, false, func(t *task) error {
			t.saw.pods, t.saw.listed = map[types.UID]*corev1.Pod{}, server.tick
			for _, p := range server.podsOn(node) {
				t.saw.pods[p.UID] = p
				list.Items = append(list.Items, *p.DeepCopy())
			}
			return nil
		})
	case *policyv1.PodDisruptionBudgetList:
		return l.doAtOnce(ctx, "budgets", get)
	}
	return l.do(ctx, false, get)
}
