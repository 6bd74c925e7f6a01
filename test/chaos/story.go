package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/test/cluster"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

const (
	nodeCount = 30
	// patience bounds one step of the story; where the operator dies at each write a step takes a minute.
	patience = 10 * time.Minute
	stranger = "stranger"
	evicting = "beta" // the tenant that has its pods evicted when a node is released
)

// life is the story of one cluster.
type life struct {
	*cluster.Cluster
}

// chapter is one step of the story: what people do, and what comes of it.
type chapter struct {
	name string
	do   func(ctx context.Context) error
	// until is nil once what must come of it is so.
	until func(ctx context.Context) error
}

// chapters are the story. Alpha has the nodes 1 to 14 and beta, which evicts, 15 to 30.
func (l *life) chapters() []chapter {
	return []chapter{
		{"30 nodes are reserved", l.reserve, func(ctx context.Context) error {
			return firstError(l.states(ctx, map[string][]string{"alpha held": names(1, 14), "beta held": names(15, 30)}),
				l.bound(ctx, "alpha"), l.bound(ctx, "beta"))
		}},
		{"pods run, others touch the nodes", l.work, func(ctx context.Context) error {
			return l.states(ctx, map[string][]string{"alpha held": names(1, 14), "beta held": names(15, 30)})
		}},
		{"alpha gives up eight nodes, beta four", func(ctx context.Context) error {
			return firstError(
				l.patch(ctx, reservation("alpha"), named(slices.Concat(names(5, 6), names(11, 14)))),
				l.patch(ctx, reservation("beta"), named(names(19, 30))))
		}, func(ctx context.Context) error {
			return l.states(ctx, map[string][]string{"alpha releasing": names(1, 4), "": slices.Concat(names(7, 10), names(15, 18))})
		}},
		{"one comes back, one is handed over", func(ctx context.Context) error {
			return firstError(
				l.patch(ctx, reservation("alpha"), named(slices.Concat(names(1, 1), names(5, 6), names(11, 14)))),
				l.patch(ctx, reservation("beta"), named(append(names(19, 30), name(4)))))
		}, func(ctx context.Context) error {
			return l.states(ctx, map[string][]string{"alpha held": names(1, 1), "alpha releasing": names(2, 4)})
		}},
		{"the pods end", func(ctx context.Context) error {
			return l.finish(ctx, "alpha", names(2, 4)...)
		}, func(ctx context.Context) error {
			return l.states(ctx, map[string][]string{"": names(2, 3), "beta held": append(names(19, 30), name(4)), "alpha held": names(11, 14)})
		}},
		{"everything is given back", func(ctx context.Context) error {
			return firstError(
				l.delete(ctx, reservation("alpha")), l.delete(ctx, reservation("beta")),
				l.finish(ctx, "alpha", append(names(5, 6), name(1))...))
		}, func(ctx context.Context) error {
			return firstError(l.states(ctx, map[string][]string{"": names(1, nodeCount)}), l.over(ctx))
		}},
	}
}

func (l *life) reserve(ctx context.Context) error {
	for tenant, nodes := range map[string][]string{"alpha": names(1, 14), "beta": names(15, 30)} {
		r := reservation(tenant)
		r.Spec = v1alpha1.ReservationSpec{Tenant: tenant, ReservedNodes: nodes, EvictOnRelease: tenant == evicting}
		b := &v1alpha1.ReservationBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "all-pods"}}
		b.Spec = v1alpha1.ReservationBindingSpec{ReservationName: tenant, PodSelector: &metav1.LabelSelector{}}
		if err := firstError(l.create(ctx, r), l.create(ctx, b)); err != nil {
			return err
		}
	}
	return nil
}

// work has pods run on nodes 1 to 6 and 15 to 20, an admin cordon 2 and 7, another controller label 3 and 8, and node 12
// be made anew.
func (l *life) work(ctx context.Context) error {
	for tenant, nodes := range map[string][]string{"alpha": names(1, 6), "beta": names(15, 20)} {
		for _, n := range nodes {
			p := pod(tenant, n)
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: n}
			if err := l.create(ctx, p); err != nil {
				return err
			}
			if err := l.await(ctx, func(ctx context.Context) error { return l.runs(ctx, p) }); err != nil {
				return err
			}
		}
	}
	node := func(n int) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name(n)}} }
	for n, body := range map[int]string{
		2: `{"spec":{"unschedulable":true}}`, 7: `{"spec":{"unschedulable":true}}`,
		3: `{"metadata":{"labels":{"checked":"yes"}}}`, 8: `{"metadata":{"labels":{"checked":"yes"}}}`,
	} {
		if err := l.patch(ctx, node(n), body); err != nil {
			return err
		}
	}
	return firstError(l.delete(ctx, node(12)), l.create(ctx, controlplane.Node(name(12), nil)))
}

// states returns an error unless each of the nodes is in its state: its tenant, and whether it is held or releasing; empty
// is free.
func (l *life) states(ctx context.Context, want map[string][]string) error {
	list := &corev1.NodeList{}
	if err := l.Client.List(ctx, list); err != nil {
		return err
	}
	states, ready := map[string]string{}, map[string]corev1.ConditionStatus{}
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == corev1.NodeReady {
				ready[list.Items[i].Name] = c.Status
			}
		}
		switch at := lockOf(&list.Items[i]); {
		case at.since != "":
			states[list.Items[i].Name] = at.tenant + " releasing"
		case at.tenant != "":
			states[list.Items[i].Name] = at.tenant + " held"
		case at.whole():
			states[list.Items[i].Name] = ""
		}
	}
	for state, nodes := range want {
		for _, n := range nodes {
			if is, known := states[n]; !known || is != state {
				return fmt.Errorf("node %s is %q, not %q (Ready %s)", n, is, state, ready[n])
			}
		}
	}
	return nil
}

// bound returns an error unless the tenant's pods are let in.
func (l *life) bound(ctx context.Context, tenant string) error {
	b := &v1alpha1.ReservationBinding{}
	err := l.Client.Get(ctx, client.ObjectKey{Namespace: tenant, Name: "all-pods"}, b)
	if err == nil && !conditions.IsReady(b) {
		err = fmt.Errorf("the binding of %s is not ready", tenant)
	}
	return err
}

// over returns an error while anything is left of the Reservations.
func (l *life) over(ctx context.Context) error {
	list := &v1alpha1.ReservationList{}
	m := &corev1.ConfigMap{}
	if err := firstError(
		l.Client.List(ctx, list), l.Client.Get(ctx, client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: v1alpha1.IndexName}, m),
	); err != nil {
		return err
	}
	index, err := allocate.Parse(m.Data)
	if err != nil || len(list.Items)+len(index.Grants) > 0 {
		return fmt.Errorf("%d Reservations and %d grants are left (%v)", len(list.Items), len(index.Grants), err)
	}
	return nil
}

// runs returns an error unless the pod runs.
func (l *life) runs(ctx context.Context, p *corev1.Pod) error {
	if err := l.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
		return err
	}
	if p.Status.Phase != corev1.PodRunning {
		return fmt.Errorf("pod %s is %s", client.ObjectKeyFromObject(p), p.Status.Phase)
	}
	return nil
}

// finish lets pods end by themselves.
func (l *life) finish(ctx context.Context, tenant string, nodes ...string) error {
	for _, n := range nodes {
		if err := l.patch(ctx, pod(tenant, n), fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, controlplane.CompleteAnnotation)); err != nil {
			return err
		}
	}
	return nil
}

// intrude tries to get a stranger's pods onto every node in turn, and a tenant's own onto those of its nodes that are
// being released, until the context ends. Those that get onto one, as a stranger's may onto a free one, are taken away
// at once: the laws have seen them.
func (l *life) intrude(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		p := pod(stranger, name(i%nodeCount+1))
		n := &corev1.Node{}
		if l.Client.Get(ctx, client.ObjectKey{Name: name(i%nodeCount + 1)}, n) == nil && lockOf(n).since != "" && i/nodeCount%2 == 0 {
			p = pod(lockOf(n).tenant, name(i%nodeCount+1))
			p.Name = "late-" + p.Name
		}
		p.Spec.NodeName = name(i%nodeCount + 1)
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		zero := int64(0)
		if l.Client.Create(ctx, p) == nil {
			_ = l.await(ctx, func(ctx context.Context) error {
				return client.IgnoreNotFound(l.Client.Delete(ctx, p, &client.DeleteOptions{GracePeriodSeconds: &zero}))
			})
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// What people do they do again until it succeeds: the webhook may be away, or the API server.

func (l *life) create(ctx context.Context, o client.Object) error {
	return l.await(ctx, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(l.Client.Create(ctx, o.DeepCopyObject().(client.Object)))
	})
}

func (l *life) delete(ctx context.Context, o client.Object) error {
	return l.await(ctx, func(ctx context.Context) error { return client.IgnoreNotFound(l.Client.Delete(ctx, o)) })
}

func (l *life) patch(ctx context.Context, o client.Object, body string) error {
	return l.await(ctx, func(ctx context.Context) error {
		return l.Client.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(body)))
	})
}

// await tries until there is no error.
func (l *life) await(ctx context.Context, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		once, done := context.WithTimeout(ctx, 5*time.Second)
		err := try(once)
		done()
		switch {
		case err == nil:
			return nil
		case apierrors.IsInvalid(err):
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func name(n int) string { return controlplane.NodeNames(nodeCount)[n-1] }

func names(from, to int) []string { return controlplane.NodeNames(nodeCount)[from-1 : to : to] }

// named returns the merge patch by which a Reservation names exactly these nodes.
func named(nodes []string) string {
	return fmt.Sprintf(`{"spec":{"reservedNodes":["%s"]}}`, strings.Join(nodes, `","`))
}

func reservation(tenant string) *v1alpha1.Reservation {
	return &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: tenant}}
}

func pod(namespace, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "on-" + node},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "trainer:v1"}}},
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
