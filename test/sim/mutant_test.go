package sim

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// mutant is a client that changes what the reconcilers read or write. What is nil is left alone.
type mutant struct {
	client.Client
	// read changes an object that was read, from the cache or past it; list a list of pods, and reservations one of those.
	read         func(ctx context.Context, o client.Object)
	list         func(*corev1.PodList)
	reservations func(*v1alpha1.ReservationList)
	// node changes a node that is about to be written; was is what the patch is made from.
	node func(was, is *corev1.Node)
	// patch does a node's write itself.
	patch func(ctx context.Context, inner client.Client, is *corev1.Node, p client.Patch) error
	// index changes the index that is about to be written.
	index func(data map[string]string)
	// store writes the index itself.
	store func(*corev1.ConfigMap)
	// evict changes how a pod is evicted or deleted.
	evict func(*metav1.DeleteOptions)
}

// into puts the mutant in the place of a process's client and live reader.
func (m mutant) into(p *parts) {
	live := p.Live
	m.Client = p.Client
	p.Client = m
	p.Live = mutantReader{live, m}
}

type mutantReader struct {
	client.Reader
	m mutant
}

func (r mutantReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return r.m.got(ctx, o, r.Reader.Get(ctx, key, o, opts...))
}

func (r mutantReader) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return r.m.listed(l, r.Reader.List(ctx, l, opts...))
}

func (m mutant) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return m.got(ctx, o, m.Client.Get(ctx, key, o, opts...))
}

func (m mutant) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return m.listed(l, m.Client.List(ctx, l, opts...))
}

func (m mutant) got(ctx context.Context, o client.Object, err error) error {
	if err == nil && m.read != nil {
		m.read(ctx, o)
	}
	return err
}

func (m mutant) listed(l client.ObjectList, err error) error {
	switch l := l.(type) {
	case *corev1.PodList:
		if m.list != nil {
			m.list(l)
		}
	case *v1alpha1.ReservationList:
		if m.reservations != nil {
			m.reservations(l)
		}
	}
	return err
}

func (m mutant) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	is, ok := o.(*corev1.Node)
	if !ok {
		return m.Client.Patch(ctx, o, p, opts...)
	}
	if m.node != nil {
		data, _ := p.Data(is)
		if was := before(ctx, is); was != nil && len(data) > 2 {
			m.node(was, is)
		}
	}
	if m.patch != nil {
		return m.patch(ctx, m.Client, is, p)
	}
	return m.Client.Patch(ctx, o, p, opts...)
}

// before is the node as the task read it last.
func before(ctx context.Context, is *corev1.Node) *corev1.Node {
	t := taskOf(ctx)
	if t.saw.node != nil {
		return t.saw.node
	}
	n, _ := t.replica.caches[nodes].objects[is.Name].(*corev1.Node)
	return n
}

func (m mutant) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return m.written(o, func() error { return m.Client.Create(ctx, o, opts...) })
}

func (m mutant) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return m.written(o, func() error { return m.Client.Update(ctx, o, opts...) })
}

func (m mutant) written(o client.Object, write func() error) error {
	if c, ok := o.(*corev1.ConfigMap); ok && m.index != nil {
		m.index(c.Data)
	}
	if c, ok := o.(*corev1.ConfigMap); ok && m.store != nil {
		m.store(c)
		return nil
	}
	return write()
}

func (m mutant) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if m.evict != nil {
		options := (&client.DeleteOptions{}).ApplyOptions(opts)
		plain := options.AsDeleteOptions()
		m.evict(plain)
		options.Preconditions, options.GracePeriodSeconds = plain.Preconditions, plain.GracePeriodSeconds
		opts = []client.DeleteOption{options}
	}
	return m.Client.Delete(ctx, o, opts...)
}

func (m mutant) SubResource(name string) client.SubResourceClient {
	return mutantEviction{m.Client.SubResource(name), m}
}

type mutantEviction struct {
	client.SubResourceClient
	m mutant
}

func (e mutantEviction) Create(ctx context.Context, pod, o client.Object, opts ...client.SubResourceCreateOption) error {
	if e.m.evict != nil {
		e.m.evict(o.(*policyv1.Eviction).DeleteOptions)
	}
	return e.SubResourceClient.Create(ctx, pod, o, opts...)
}

// unconditional is a patch without its precondition.
func unconditional(o client.Object, p client.Patch) client.Patch {
	data, _ := p.Data(o)
	var patch map[string]any
	_ = json.Unmarshal(data, &patch)
	if meta, ok := patch["metadata"].(map[string]any); ok {
		delete(meta, "resourceVersion")
	}
	data, _ = json.Marshal(patch)
	return client.RawPatch(types.MergePatchType, data)
}

// deaf is a watch on pods that never tells of anything.
type deaf struct{}

func (deaf) Watch(string)  {}
func (deaf) Forget(string) {}

// trusting is a fence that is always said to stand.
type trusting struct{}

func (trusting) Await(ctx context.Context, _ int64) error { return taskOf(ctx).gate(false) }
