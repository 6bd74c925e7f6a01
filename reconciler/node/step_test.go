package node_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
	"github.com/reservation-operator/reservation-operator/reconciler/node"
)

var now = time.Date(2026, 12, 2, 3, 4, 5, 0, time.UTC)

var (
	heldByAlpha      = allocate.Grant{Reservation: "r-alpha", Namespaces: []string{"alpha"}}
	heldByBeta       = allocate.Grant{Reservation: "r-beta", Namespaces: []string{"beta"}}
	releasingByAlpha = allocate.Grant{Reservation: "r-alpha", Phase: allocate.Releasing}
	freedByAlpha     = allocate.Grant{Reservation: "r-alpha", Phase: allocate.Freed}
)

func reservation(tenant string, change ...func(*v1alpha1.ReservationSpec)) *v1alpha1.Reservation {
	r := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "r-" + tenant},
		Spec:       v1alpha1.ReservationSpec{Tenant: tenant, ReservedNodes: []string{"gpu-01"}},
	}
	for _, f := range change {
		f(&r.Spec)
	}
	return r
}

func evicting(s *v1alpha1.ReservationSpec) { s.EvictOnRelease = true }

// free is a node that nobody has.
func free(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-01", UID: "node-uid", ResourceVersion: "7"}}
	for _, f := range change {
		f(n)
	}
	return n
}

// locked is a node with the tenant's whole lock.
func locked(tenant string, change ...func(*corev1.Node)) *corev1.Node {
	n, err := lock.On(free(), reservation(tenant))
	if err != nil {
		panic(err)
	}
	for _, f := range change {
		f(n)
	}
	return n
}

// draining is a locked node whose release has begun.
func draining(tenant string, change ...func(*corev1.Node)) *corev1.Node {
	n := lock.Releasing(locked(tenant), "r-"+tenant, now)
	for _, f := range change {
		f(n)
	}
	return n
}

func cordoned(n *corev1.Node)   { n.Spec.Unschedulable = true }
func uncordoned(n *corev1.Node) { n.Spec.Unschedulable = false }

func pod(name string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "alpha", Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       corev1.PodSpec{NodeName: "gpu-01"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func ending(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }

func TestNext(t *testing.T) {
	oldTaint := func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "reserved", Value: "old", Effect: corev1.TaintEffectNoSchedule})
	}
	one := []corev1.Pod{pod("p1")}
	alpha, beta := reservation("alpha"), reservation("beta")
	cases := map[string]struct {
		node        *corev1.Node
		grant       *allocate.Grant
		unenforced  bool
		reservation *v1alpha1.Reservation
		listed      bool
		pods        []corev1.Pod

		want       node.Action
		wantNode   *corev1.Node
		wantEvict  []string
		wantEvent  string
		wantReason string
		wantText   string
	}{
		// Nobody's.
		"a free node that nobody has rests":                                 {node: free(), want: node.Rest},
		"a lock without a grant rests, because allocation takes it up":      {node: locked("alpha"), want: node.Rest},
		"a drained node without a grant rests too, whatever the pods on it": {node: draining("alpha"), listed: true, pods: one, want: node.Rest},

		// Held.
		"a granted node is locked by one patch":         {node: free(), grant: &heldByAlpha, reservation: alpha, want: node.Patch, wantNode: locked("alpha")},
		"a locked node rests":                           {node: locked("alpha"), grant: &heldByAlpha, reservation: alpha, want: node.Rest},
		"a locked node rests while nothing is enforced": {node: locked("alpha"), grant: &heldByAlpha, reservation: alpha, unenforced: true, want: node.Rest},
		"a granted node is not locked before the fence stands": {
			node: free(), grant: &heldByAlpha, reservation: alpha, unenforced: true,
			want: node.Rest, wantReason: v1alpha1.ReasonFenceNotProven, wantText: "node gpu-01 waits until",
		},
		"a node whose Reservation was not seen yet rests": {node: free(), grant: &heldByAlpha, want: node.Rest},
		"a node whose grant lets in whom its Reservation does not accept rests: one of them is of another life": {
			node: free(), grant: &allocate.Grant{Reservation: "r-alpha", Namespaces: []string{"beta"}}, reservation: alpha, want: node.Rest,
		},
		"a node whose grant lets in fewer than its Reservation accepts is locked: the index was full": {
			node: free(), grant: &allocate.Grant{Reservation: "r-alpha"}, reservation: alpha, want: node.Patch, wantNode: locked("alpha"),
		},
		"somebody's taint in our place is reported and the node left alone": {
			node: free(oldTaint), grant: &heldByAlpha, reservation: alpha,
			want: node.Rest, wantReason: v1alpha1.ReasonTaintConflict, wantText: "reserved=old:NoSchedule",
		},
		"an admin's cordon stays on a node that is locked": {
			node: free(cordoned), grant: &heldByAlpha, reservation: alpha, want: node.Patch, wantNode: locked("alpha", cordoned),
		},
		"a release that is called off puts the node straight back": {
			node: draining("alpha"), grant: &heldByAlpha, reservation: alpha,
			want: node.Patch, wantNode: locked("alpha"), wantEvent: v1alpha1.ReasonReleaseAborted,
		},
		"a release that is called off waits for the fence": {
			node: draining("alpha"), grant: &heldByAlpha, reservation: alpha, unenforced: true,
			want: node.Rest, wantReason: v1alpha1.ReasonFenceNotProven,
		},
		"a mark on a cordon that an admin took back goes": {
			node: locked("alpha", func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationCordoned] = "r-alpha" }), grant: &heldByAlpha, reservation: alpha,
			want: node.Patch, wantNode: locked("alpha"),
		},

		// Handover.
		"another tenant's lock is not replaced before its pods were looked for": {
			node: draining("alpha"), grant: &heldByBeta, reservation: beta, want: node.List,
		},
		"another tenant's lock stays while its pods run": {
			node: draining("alpha"), grant: &heldByBeta, reservation: beta, listed: true, pods: one,
			want: node.Wait, wantText: "waits for 1 pod to end: alpha/p1",
		},
		"another tenant's empty node is handed over by one patch, cordon and all": {
			node: draining("alpha"), grant: &heldByBeta, reservation: beta, listed: true, want: node.Patch, wantNode: locked("beta"),
		},
		"a node that was empty from the start is handed over without a cordon": {
			node: locked("alpha"), grant: &heldByBeta, reservation: beta, listed: true, want: node.Patch, wantNode: locked("beta"),
		},
		"a handover waits for the fence": {
			node: draining("alpha"), grant: &heldByBeta, reservation: beta, listed: true, unenforced: true,
			want: node.Rest, wantReason: v1alpha1.ReasonFenceNotProven,
		},
		"within a tenant the lock changes at once": {
			node: draining("alpha"), grant: &allocate.Grant{Reservation: "r-alpha-2"},
			reservation: &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "r-alpha-2"}, Spec: alpha.Spec},
			want:        node.Patch, wantEvent: v1alpha1.ReasonReleaseAborted,
			wantNode: locked("alpha", func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationReservation] = "r-alpha-2" }),
		},

		// Releasing.
		"a release looks for pods first": {node: locked("alpha"), grant: &releasingByAlpha, reservation: alpha, want: node.List},
		"a release does not begin before the index is enforced": {
			node: locked("alpha"), grant: &releasingByAlpha, reservation: alpha, unenforced: true,
			want: node.Rest, wantReason: v1alpha1.ReasonFenceNotProven,
		},
		"a node without pods is drained without a cordon": {node: locked("alpha"), grant: &releasingByAlpha, reservation: alpha, listed: true, want: node.Drained},
		"a node with pods is cordoned before anything else": {
			node: locked("alpha"), grant: &releasingByAlpha, reservation: reservation("alpha", evicting), listed: true, pods: one,
			want: node.Patch, wantNode: draining("alpha"), wantEvent: v1alpha1.ReasonReleaseStarted, wantText: "alpha/p1",
		},
		"a node that an admin cordoned is marked as being released, not as ours": {
			node: locked("alpha", cordoned), grant: &releasingByAlpha, reservation: alpha, listed: true, pods: one,
			want: node.Patch, wantEvent: v1alpha1.ReasonReleaseStarted, wantText: "alpha/p1",
			wantNode: draining("alpha", func(n *corev1.Node) { delete(n.Annotations, v1alpha1.AnnotationCordoned) }),
		},
		"a cordoned node waits for its pods": {
			node: draining("alpha"), grant: &releasingByAlpha, reservation: alpha, listed: true,
			pods: []corev1.Pod{pod("p1"), pod("p2"), pod("p3"), pod("p4")},
			want: node.Wait, wantText: "waits for 4 pods to end: alpha/p1, alpha/p2, alpha/p3 and 1 more",
		},
		"evictOnRelease evicts all but those that are ending": {
			node: draining("alpha"), grant: &releasingByAlpha, reservation: reservation("alpha", evicting), listed: true,
			pods: []corev1.Pod{pod("p1"), pod("p2", ending), pod("p3")},
			want: node.Evict, wantEvict: []string{"p1", "p3"}, wantText: "waits for 3 pods",
		},
		"when all are ending, evictOnRelease waits": {
			node: draining("alpha"), grant: &releasingByAlpha, reservation: reservation("alpha", evicting), listed: true,
			pods: []corev1.Pod{pod("p1", ending)}, want: node.Wait, wantText: "alpha/p1",
		},
		"without its Reservation a release waits and never evicts": {
			node: draining("alpha"), grant: &releasingByAlpha, listed: true, pods: one, want: node.Wait, wantText: "alpha/p1",
		},
		"an empty cordoned node is drained": {node: draining("alpha"), grant: &releasingByAlpha, reservation: alpha, listed: true, want: node.Drained},
		"a node that an admin uncordoned meanwhile loses our mark and is not cordoned again": {
			node: draining("alpha", uncordoned), grant: &releasingByAlpha, reservation: alpha, listed: true, pods: one, want: node.Patch,
			wantNode: draining("alpha", uncordoned, func(n *corev1.Node) { delete(n.Annotations, v1alpha1.AnnotationCordoned) }),
		},
		"without our mark it goes on waiting": {
			node: draining("alpha", uncordoned, func(n *corev1.Node) { delete(n.Annotations, v1alpha1.AnnotationCordoned) }), grant: &releasingByAlpha,
			reservation: alpha, listed: true, pods: one, want: node.Wait, wantText: "alpha/p1",
		},
		"a node that bears no lock and no pod has nothing to wait for": {node: free(), grant: &releasingByAlpha, reservation: alpha, listed: true, want: node.Drained},
		"a node whose lock was torn off waits for the tenant's pods all the same, and is not touched": {
			node: free(), grant: &releasingByAlpha, reservation: alpha, listed: true, pods: one, want: node.Wait, wantText: "alpha/p1",
		},
		"a label put on by hand is drained like a lock": {
			node:  free(func(n *corev1.Node) { n.Labels = map[string]string{v1alpha1.LabelTenant: "alpha"} }),
			grant: &allocate.Grant{Reservation: allocate.Orphan, Phase: allocate.Releasing}, listed: true, want: node.Drained,
		},

		// Freed.
		"a freed node is looked at once more":       {node: draining("alpha"), grant: &freedByAlpha, reservation: alpha, want: node.List},
		"a freed node is unlocked by one patch":     {node: draining("alpha"), grant: &freedByAlpha, listed: true, want: node.Patch, wantNode: free(), wantEvent: v1alpha1.ReasonNodeReleased},
		"a freed node waits for a pod that is late": {node: draining("alpha"), grant: &freedByAlpha, listed: true, pods: one, want: node.Wait, wantText: "alpha/p1"},
		"a freed node is not unlocked while nothing is enforced": {
			node: draining("alpha"), grant: &freedByAlpha, listed: true, unenforced: true, want: node.Rest, wantReason: v1alpha1.ReasonFenceNotProven,
		},
		"a freed node keeps an admin's cordon": {
			node: locked("alpha", cordoned), grant: &freedByAlpha, listed: true,
			want: node.Patch, wantNode: free(cordoned), wantEvent: v1alpha1.ReasonNodeReleased,
		},
		"an unlocked node rests until allocation forgets it": {node: free(), grant: &freedByAlpha, want: node.Rest},
		"what is left of a lock that somebody removed is cleaned up": {
			node:  free(cordoned, func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.AnnotationCordoned: "r-alpha"} }),
			grant: &allocate.Grant{Reservation: allocate.Orphan, Phase: allocate.Freed}, listed: true,
			want: node.Patch, wantNode: free(), wantEvent: v1alpha1.ReasonNodeReleased,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := node.Snapshot{
				Node: c.node, Enforced: !c.unenforced, Reservation: c.reservation, Pods: c.pods, Listed: c.listed, Now: now,
			}
			if c.grant != nil {
				s.Grant, s.Granted = *c.grant, true
			}
			before := c.node.DeepCopy()
			step := node.Next(s)
			require.Equal(t, c.want, step.Action)
			require.Equal(t, c.wantEvent, step.Event)
			require.Equal(t, c.wantReason, step.Reason)
			require.Contains(t, step.WaitingFor+"\n"+step.Message, c.wantText)
			require.Equal(t, c.wantReason == "", step.Message == "")
			require.Empty(t, cmp.Diff(c.wantNode, step.Node, cmpopts.EquateEmpty()))
			var evict []string
			for _, p := range step.Evict {
				evict = append(evict, p.Pod.Name)
			}
			require.Equal(t, c.wantEvict, evict)
			require.Equal(t, before, c.node, "the snapshot is not changed")
			require.NotSame(t, c.node, step.Node, "nor is what the API server answers written into it: it is the cache's own")
			require.Equal(t, step, node.Next(s), "and the answer is the same again")
		})
	}
}

// Every way from one state of the index to the next, with a crash after any write: the next process sees only what is
// on the Node and in the index, so it is enough that Next, asked again after each write, comes to the same end.
func TestNextAfterACrashAtAnyPoint(t *testing.T) {
	run := func(t *testing.T, n *corev1.Node, grant allocate.Grant, r *v1alpha1.Reservation, pods ...corev1.Pod) (*corev1.Node, node.Action, int) {
		t.Helper()
		for writes := 0; ; writes++ {
			require.Less(t, writes, 4, "it goes on writing")
			s := node.Snapshot{Node: n, Grant: grant, Granted: true, Enforced: true, Reservation: r, Now: now.Add(time.Hour)}
			step := node.Next(s)
			if step.Action == node.List {
				s.Listed, s.Pods = true, pods
				step = node.Next(s)
			}
			if step.Action != node.Patch {
				return n, step.Action, writes
			}
			n = step.Node
		}
	}
	cases := map[string]struct {
		node        *corev1.Node
		grant       allocate.Grant
		reservation *v1alpha1.Reservation
		pods        []corev1.Pod
		wantNode    *corev1.Node
		want        node.Action
		wantWrites  int
	}{
		"granted, not locked":              {free(), heldByAlpha, reservation("alpha"), nil, locked("alpha"), node.Rest, 1},
		"locked":                           {locked("alpha"), heldByAlpha, reservation("alpha"), nil, locked("alpha"), node.Rest, 0},
		"releasing, not cordoned":          {locked("alpha"), releasingByAlpha, reservation("alpha"), []corev1.Pod{pod("p")}, lock.Releasing(locked("alpha"), "r-alpha", now.Add(time.Hour)), node.Wait, 1},
		"releasing, cordoned":              {draining("alpha"), releasingByAlpha, reservation("alpha"), []corev1.Pod{pod("p")}, draining("alpha"), node.Wait, 0},
		"releasing, empty":                 {draining("alpha"), releasingByAlpha, reservation("alpha"), nil, draining("alpha"), node.Drained, 0},
		"freed, not unlocked":              {draining("alpha"), freedByAlpha, reservation("alpha"), nil, free(), node.Rest, 1},
		"freed, unlocked":                  {free(), freedByAlpha, reservation("alpha"), nil, free(), node.Rest, 0},
		"claimed again, still cordoned":    {draining("alpha"), heldByAlpha, reservation("alpha"), []corev1.Pod{pod("p")}, locked("alpha"), node.Rest, 1},
		"handed over, not locked yet":      {draining("alpha"), heldByBeta, reservation("beta"), nil, locked("beta"), node.Rest, 1},
		"handed over, locked":              {locked("beta"), heldByBeta, reservation("beta"), []corev1.Pod{pod("p")}, locked("beta"), node.Rest, 0},
		"unlocked and granted to the next": {free(), heldByBeta, reservation("beta"), nil, locked("beta"), node.Rest, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, action, writes := run(t, c.node, c.grant, c.reservation, c.pods...)
			require.Empty(t, cmp.Diff(c.wantNode, got, cmpopts.EquateEmpty()))
			require.Equal(t, c.want, action)
			require.Equal(t, c.wantWrites, writes)
		})
	}
}
