package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/cluster"
)

// release measures, over 20 nodes one after the other, the time from an edit of reservedNodes to the node's lock, and
// from the end of the last pod to the node's release. The baselines are one raw patch of a node each.
func release(ctx context.Context) error {
	const rounds = 20
	c, err := cluster.Start(ctx, cluster.Options{Bare: true})
	if err != nil {
		return err
	}
	defer c.Stop()
	all := names("release", rounds)
	if err := register(ctx, c, all); err != nil {
		return err
	}
	if err := c.Operator.Start(ctx); err != nil {
		return err
	}
	if err := bound(ctx, c, "release"); err != nil {
		return err
	}
	watched, err := watchNodes(ctx, c)
	if err != nil {
		return err
	}
	var locked, released, raw []time.Duration
	for i, name := range all {
		began := time.Now()
		if err := rename(ctx, c, name); err != nil {
			return err
		}
		if err := watched.await(ctx, "release", 1); err != nil {
			return err
		}
		locked = append(locked, time.Since(began))
		took, err := releaseOnce(ctx, c, watched, name, i)
		if err != nil {
			return err
		}
		released = append(released, took)
		began = time.Now()
		if err := rawPatch(c.Client)(ctx, name); err != nil {
			return err
		}
		raw = append(raw, time.Since(began))
		if err := rawClear(c.Client)(ctx, name); err != nil {
			return err
		}
	}
	l, r, b := median(locked), median(released), median(raw)
	figure("edit_to_locked_p50", l.Round(time.Millisecond).String(), b.Round(time.Millisecond).String(), ratio(l, b), "2s", l <= 2*time.Second)
	figure("pod_end_to_released_p50", r.Round(time.Millisecond).String(), b.Round(time.Millisecond).String(), ratio(r, b), "1s", r <= time.Second)
	return nil
}

// rename has the Reservation name exactly these nodes.
func rename(ctx context.Context, c *cluster.Cluster, nodes ...string) error {
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "release"}}
	list := "[]"
	if len(nodes) == 1 {
		list = fmt.Sprintf("[%q]", nodes[0])
	}
	return c.Client.Patch(ctx, r, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"reservedNodes":`+list+`}}`)))
}

// releaseOnce binds a pod to the node, gives the node back, ends the pod once the release waits for it, and returns the
// time from that end to the release.
func releaseOnce(ctx context.Context, c *cluster.Cluster, watched *counter, node string, i int) (time.Duration, error) {
	p := benchPod("release", i)
	if err := c.Client.Create(ctx, p); err != nil {
		return 0, err
	}
	if err := c.Client.SubResource("binding").Create(ctx, p, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}); err != nil {
		return 0, err
	}
	if err := rename(ctx, c); err != nil {
		return 0, err
	}
	n := &corev1.Node{}
	for deadline := time.Now().Add(time.Minute); n.Annotations[v1alpha1.AnnotationReleasingSince] == ""; time.Sleep(20 * time.Millisecond) {
		if err := c.Client.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
			return 0, err
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("the release of %s does not begin", node)
		}
	}
	time.Sleep(300 * time.Millisecond) // the operator's watch of the node's pods stands
	zero := int64(0)
	began := time.Now()
	if err := c.Client.Delete(ctx, p, &client.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		return 0, err
	}
	err := watched.await(ctx, "release", 0)
	return time.Since(began), err
}
