package node_test

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// fence enforces the index that was stored when it last looked.
type fence struct {
	server client.Reader
	data   map[string]string
	broken bool
}

func (f *fence) look() {
	m := &corev1.ConfigMap{}
	err := f.server.Get(context.Background(), client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: v1alpha1.IndexName}, m)
	if apierrors.IsNotFound(err) {
		f.data = nil // without a parameter, everything is denied
		return
	}
	f.data = m.Data
}

// accepts is what the policy says of a bind.
func (f *fence) accepts(node, namespace string) bool {
	nodes := f.data[allocate.KeyNodes]
	return nodes != "" && (!strings.Contains(nodes, "|"+node+" ") || strings.Contains(nodes, "|"+node+" "+namespace+"|"))
}

func (f *fence) Await(_ context.Context, version int64) error {
	if f.broken {
		return errors.New("broken")
	}
	f.look()
	if index, err := allocate.Parse(f.data); err != nil || index.Version < version {
		return errors.New("not enforced")
	}
	return nil
}

// cache serves what the server had when it was last synced, object by object.
type cache struct {
	client.WithWatch
	nodes        map[string]*corev1.Node
	reservations map[string]*v1alpha1.Reservation
	// before is called before each write: between what was read and what is written, anything may happen.
	before func()
}

func (c *cache) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	c.before()
	return c.WithWatch.Patch(ctx, o, p, opts...)
}

func (c *cache) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	c.before()
	return c.WithWatch.Update(ctx, o, opts...)
}

func (c *cache) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	c.before()
	return c.WithWatch.Create(ctx, o, opts...)
}

func (c *cache) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o := o.(type) {
	case *corev1.Node:
		if n := c.nodes[key.Name]; n != nil {
			n.DeepCopyInto(o)
			return nil
		}
	case *v1alpha1.Reservation:
		if r := c.reservations[key.Name]; r != nil {
			r.DeepCopyInto(o)
			return nil
		}
	default:
		return c.WithWatch.Get(ctx, key, o, opts...)
	}
	return apierrors.NewNotFound(corev1.Resource("objects"), key.Name)
}

func (c *cache) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	switch l := l.(type) {
	case *corev1.NodeList:
		for _, n := range c.nodes {
			l.Items = append(l.Items, *n.DeepCopy())
		}
		return nil
	case *v1alpha1.ReservationList:
		for _, r := range c.reservations {
			l.Items = append(l.Items, *r.DeepCopy())
		}
		return nil
	}
	return c.WithWatch.List(ctx, l, opts...)
}

// syncNodes and syncReservations catch up, each like a watch of its own.
func (c *cache) syncNodes() {
	var l corev1.NodeList
	_ = c.WithWatch.List(context.Background(), &l)
	c.nodes = map[string]*corev1.Node{}
	for i := range l.Items {
		c.nodes[l.Items[i].Name] = &l.Items[i]
	}
}

func (c *cache) syncReservations() {
	var l v1alpha1.ReservationList
	_ = c.WithWatch.List(context.Background(), &l)
	c.reservations = map[string]*v1alpha1.Reservation{}
	for i := range l.Items {
		c.reservations[l.Items[i].Name] = &l.Items[i]
	}
}
