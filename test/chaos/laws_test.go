package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/test/cluster"
)

// at is a node's state in a record: changes are applied to a node without a lock.
func at(changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-01", Labels: map[string]string{}, Annotations: map[string]string{}}}
	for _, change := range changes {
		change(n)
	}
	return n
}

func held(n *corev1.Node) {
	n.Labels[v1alpha1.LabelTenant] = "alpha"
	n.Annotations[v1alpha1.AnnotationReservation], n.Annotations[v1alpha1.AnnotationTaintEffect] = "alpha", "NoSchedule"
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.TaintKey, Value: "alpha", Effect: corev1.TaintEffectNoSchedule})
}

func releasing(n *corev1.Node) {
	held(n)
	n.Annotations[v1alpha1.AnnotationReleasingSince] = "2026-01-01T00:00:00Z"
	n.Spec.Unschedulable = true
}

func ours(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationCordoned] = "alpha" }

func again(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationReleasingSince] = "2026-01-01T00:00:01Z" }

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func tainted(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoSchedule})
}

func index(phase allocate.Phase) client.Object {
	x := allocate.Index{Version: 1, Grants: map[string]allocate.Grant{}}
	if phase != "none" {
		x.Grants["gpu-01"] = allocate.Grant{Reservation: "alpha", Phase: phase}
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.IndexName}, Data: x.Data()}
}

func given(to string) client.Object {
	x := allocate.Index{Version: 2, Grants: map[string]allocate.Grant{"gpu-01": {Reservation: to}}}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.IndexName}, Data: x.Data()}
}

func on(namespace string, phase corev1.PodPhase) client.Object {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", UID: "u"}, Spec: corev1.PodSpec{NodeName: "gpu-01"},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func ending(o client.Object) client.Object {
	o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(0, 0)})
	return o
}

func TestJudge(t *testing.T) {
	for name, tc := range map[string]struct {
		record []client.Object
		writes int
		want   string
	}{
		"a whole life": {record: []client.Object{
			at(), index(allocate.Held), at(held), on("alpha", corev1.PodRunning), index(allocate.Releasing), at(releasing, ours),
			on("alpha", corev1.PodSucceeded), index(allocate.Freed), at(), index("none"),
		}, writes: 3},
		"claimed again": {record: []client.Object{
			at(), index(allocate.Held), at(held), index(allocate.Releasing), at(releasing, ours), index(allocate.Held), at(held),
		}, writes: 3},
		"an admin's cordon": {record: []client.Object{
			at(cordoned), index(allocate.Held), at(held, cordoned), index(allocate.Releasing), at(releasing), at(cordoned), index("none"),
		}, writes: 3},
		"half a lock": {record: []client.Object{
			at(), index(allocate.Held), at(func(n *corev1.Node) { n.Labels[v1alpha1.LabelTenant] = "alpha" }),
		}, writes: 1, want: "law 1"},
		"half a release": {record: []client.Object{
			at(), index(allocate.Held), at(held), at(releasing, ours), at(cordoned, ours),
		}, writes: 3, want: "law 1"},
		"no cordon": {record: []client.Object{
			at(), index(allocate.Held), at(held), at(releasing, func(n *corev1.Node) { n.Spec.Unschedulable = false }),
		}, writes: 2, want: "law 1"},
		"under a pod": {record: []client.Object{
			at(), index(allocate.Held), at(held), on("alpha", corev1.PodRunning), at(releasing, ours), at(),
		}, writes: 3, want: "law 2"},
		"without a release": {record: []client.Object{at(), index(allocate.Held), at(held), at()}, writes: 2, want: "law 2"},
		"an admin's cordon is taken off": {record: []client.Object{
			at(), index(allocate.Held), at(held), at(held, cordoned), at(releasing), at(),
		}, writes: 3, want: "law 4"},
		"another taint goes": {record: []client.Object{
			at(tainted), index(allocate.Held), at(held),
		}, writes: 1, want: "others' taints and labels stay"},
		"a release begins again": {record: []client.Object{
			at(), index(allocate.Held), at(held), at(releasing, ours), at(releasing, ours, again),
		}, writes: 3, want: "a release goes on"},
		"no entry": {record: []client.Object{at(), at(held)}, writes: 1, want: "index first"},
		"an entry that lets nobody in": {record: []client.Object{
			at(), index(allocate.Releasing), at(held),
		}, writes: 1, want: "index first"},
		"handed over in two": {record: []client.Object{
			at(), index(allocate.Held), at(held), at(releasing, ours), given("beta"), at(),
		}, writes: 3, want: "law 3"},
		"a cordon of ours that stays": {record: []client.Object{
			at(), index(allocate.Held), at(held), index(allocate.Releasing), at(releasing, ours), index(allocate.Freed), at(cordoned),
		}, writes: 3, want: "law 4"},
		"no write at all": {record: []client.Object{at(), index(allocate.Held), at(held)}, want: "no write is repeated"},
		"a stranger": {record: []client.Object{
			at(), index(allocate.Held), at(held), on("stranger", corev1.PodPending),
		}, writes: 1, want: "law 8"},
		"a late pod of the tenant's": {record: []client.Object{
			at(), index(allocate.Held), at(held), index(allocate.Releasing), at(releasing, ours), on("alpha", corev1.PodPending),
		}, writes: 2, want: "a release lets nobody in"},
		"a forgotten node":   {record: []client.Object{at(), index(allocate.Held), at(held), index("none")}, writes: 1, want: "law 9"},
		"a repeated write":   {record: []client.Object{at(), index(allocate.Held), at(held)}, writes: 2, want: "no write is repeated"},
		"a write too little": {record: []client.Object{at(), index(allocate.Held), at(held), at(releasing, ours)}, writes: 1, want: "no write is repeated"},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []change
			for i, o := range tc.record {
				changes = append(changes, change{version: uint64(i), object: o})
			}
			broken := judge(changes, slices.Repeat([]write{{Write: cluster.Write{Verb: "patch", Resource: "nodes", Name: "gpu-01"}}}, tc.writes))
			if tc.want == "" {
				require.Empty(t, broken)
				return
			}
			require.NotEmpty(t, broken)
			require.Contains(t, broken[0], tc.want)
		})
	}
}

func TestJudgeOfEvictions(t *testing.T) {
	for name, tc := range map[string]struct {
		tenant    string
		releasing bool
		by        string // of which pod the operator wrote
		want      bool
	}{
		"a tenant's whose pods are waited for":   {"alpha", true, "p", false},
		"one's whose pods are evicted":           {evicting, true, "p", true},
		"one's whose node is not being released": {evicting, false, "p", false},
		"somebody else's doing":                  {"alpha", true, "other", true},
	} {
		t.Run(name, func(t *testing.T) {
			owned := func(n *corev1.Node) {
				held(n)
				if tc.releasing {
					n.Annotations[v1alpha1.AnnotationReleasingSince] = "2026-01-01T00:00:00Z"
				}
				n.Labels[v1alpha1.LabelTenant] = tc.tenant
			}
			h := judge([]change{
				{version: 1, object: on(tc.tenant, corev1.PodRunning)}, {version: 2, object: at(owned)},
				{version: 3, object: ending(on(tc.tenant, corev1.PodRunning))},
			}, []write{{Write: cluster.Write{Verb: "create", Resource: "pods/eviction", Namespace: tc.tenant, Name: tc.by}}})
			yanked := slices.ContainsFunc(h, func(text string) bool { return strings.Contains(text, "nobody's job is yanked") })
			require.Equal(t, tc.want, !yanked, "%v", h)
		})
	}
}

func TestJudgeOfAWriteWhoseAnswerWasLost(t *testing.T) {
	lost := []write{{Write: cluster.Write{Verb: "patch", Resource: "nodes", Name: "gpu-01"}, lost: true}}
	changes := []change{{version: 1, object: at()}, {version: 2, object: index(allocate.Held)}}
	require.Empty(t, judge(changes, lost), "it was not made")
	require.Empty(t, judge(append(changes, change{version: 3, object: at(held)}), lost), "it was made")
}

func TestRequestOf(t *testing.T) {
	for path, want := range map[string]request{
		"PATCH /api/v1/nodes/gpu-01":                                  {cluster.Write{Verb: "patch", Resource: "nodes", Name: "gpu-01"}, true},
		"PATCH /api/v1/nodes/gpu-01?dryRun=All":                       {cluster.Write{Verb: "patch", Resource: "nodes", Name: "gpu-01"}, false},
		"GET /api/v1/nodes":                                           {cluster.Write{Resource: "nodes"}, false},
		"POST /api/v1/namespaces/a/pods/p/eviction":                   {cluster.Write{Verb: "create", Resource: "pods/eviction", Namespace: "a", Name: "p"}, true},
		"PUT /apis/coordination.k8s.io/v1/namespaces/a/leases/l":      {cluster.Write{Verb: "update", Resource: "leases", Namespace: "a", Name: "l"}, false},
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {cluster.Write{Verb: "create", Resource: "selfsubjectaccessreviews"}, false},
		"GET /healthz": {},
	} {
		method, target, _ := strings.Cut(path, " ")
		r, err := http.NewRequest(method, "http://localhost"+target, nil)
		require.NoError(t, err)
		require.Equal(t, want, requestOf(r), path)
	}
}
