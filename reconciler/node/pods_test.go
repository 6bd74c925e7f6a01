package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reservation-operator/reservation-operator/reconciler/node"
)

func in(namespace string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = namespace } }

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "gpu-01", UID: "owner", Controller: ptr.To(true)}}
	}
}

func mirror(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
}

func selecting(tenant string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"reserved.tenant": tenant} }
}

func requiring(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}

func term(operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "zone", Operator: corev1.NodeSelectorOpExists},
		{Key: "reserved.tenant", Operator: operator, Values: values},
	}}
}

func tolerating(key, value string, operator corev1.TolerationOperator) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Value: value, Operator: operator})
	}
}

func TestOccupies(t *testing.T) {
	cases := map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"a running pod of an accepted namespace":       {pod("p"), true},
		"a pending one":                                {pod("p", phase(corev1.PodPending)), true},
		"one whose phase is not known":                 {pod("p", phase(corev1.PodUnknown)), true},
		"one that is being deleted":                    {pod("p", ending), true},
		"one that has succeeded":                       {pod("p", phase(corev1.PodSucceeded)), false},
		"one that has failed":                          {pod("p", phase(corev1.PodFailed)), false},
		"one that ended and is held by a finalizer":    {pod("p", phase(corev1.PodSucceeded), ending), false},
		"a ReplicaSet's":                               {pod("p", ownedBy("apps/v1", "ReplicaSet")), true},
		"a DaemonSet's":                                {pod("p", ownedBy("apps/v1", "DaemonSet")), false},
		"that of another kind called DaemonSet":        {pod("p", ownedBy("example.com/v1", "DaemonSet")), true},
		"the kubelet's static pod":                     {pod("p", mirror, ownedBy("v1", "Node")), false},
		"one that only bears the mirror annotation":    {pod("p", mirror), true},
		"one that only names a Node as its owner":      {pod("p", ownedBy("v1", "Node")), true},
		"another namespace's":                          {pod("p", in("default")), false},
		"another namespace's that selects the tenant":  {pod("p", in("default"), selecting("alpha")), true},
		"another namespace's that selects another":     {pod("p", in("default"), selecting("beta")), false},
		"one that requires the tenant in one term":     {pod("p", in("default"), requiring(term(corev1.NodeSelectorOpExists), term(corev1.NodeSelectorOpIn, "beta", "alpha"))), true},
		"one that requires another tenant":             {pod("p", in("default"), requiring(term(corev1.NodeSelectorOpIn, "beta"))), false},
		"one that requires any tenant":                 {pod("p", in("default"), requiring(term(corev1.NodeSelectorOpExists))), false},
		"one that keeps off the tenant":                {pod("p", in("default"), requiring(term(corev1.NodeSelectorOpNotIn, "alpha"))), false},
		"one that tolerates exactly the tenant":        {pod("p", in("default"), tolerating("reserved", "alpha", corev1.TolerationOpEqual)), true},
		"one that does so by the default operator":     {pod("p", in("default"), tolerating("reserved", "alpha", "")), true},
		"one that tolerates another tenant":            {pod("p", in("default"), tolerating("reserved", "beta", corev1.TolerationOpEqual)), false},
		"one that tolerates any tenant":                {pod("p", in("default"), tolerating("reserved", "", corev1.TolerationOpExists)), false},
		"one that tolerates everything":                {pod("p", in("default"), tolerating("", "", corev1.TolerationOpExists)), false},
		"one that tolerates another key of that value": {pod("p", in("default"), tolerating("team", "alpha", corev1.TolerationOpEqual)), false},
		"a DaemonSet's that demands the tenant":        {pod("p", in("default"), ownedBy("apps/v1", "DaemonSet"), selecting("alpha")), false},
		"one with an affinity of another sort":         {pod("p", in("default"), func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{} }), false},
		"one with no required terms": {pod("p", in("default"), func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		}), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, node.Occupies(&c.pod, "alpha", []string{"alpha", "alpha-train"}))
		})
	}
	t.Run("nobody's node is occupied by nobody", func(t *testing.T) {
		for name, p := range map[string]corev1.Pod{
			"a plain pod": pod("p"), "one that selects an empty tenant": pod("p", selecting("")),
			"one that tolerates an empty value": pod("p", tolerating("reserved", "", corev1.TolerationOpEqual)),
		} {
			require.False(t, node.Occupies(&p, "", nil), name)
		}
	})
}

func TestForeign(t *testing.T) {
	cases := map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"the tenant's own":                   {pod("p"), false},
		"another's":                          {pod("p", in("beta")), true},
		"another's, demanding the tenant":    {pod("p", in("beta"), selecting("alpha")), true},
		"another's that has ended":           {pod("p", in("beta"), phase(corev1.PodFailed)), false},
		"one that names a DaemonSet":         {pod("p", in("beta"), ownedBy("apps/v1", "DaemonSet")), true},
		"one of an exempt namespace":         {pod("p", in("kube-system"), ownedBy("apps/v1", "ReplicaSet")), false},
		"the kubelet's static pod":           {pod("p", in("beta"), mirror, ownedBy("v1", "Node"), onThisNode), false},
		"one that says it is another node's": {pod("p", in("beta"), mirror, ownedBy("v1", "Node")), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, node.Foreign(&c.pod, free(), []string{"alpha"}, []string{"kube-system"}))
		})
	}
}

func onThisNode(p *corev1.Pod) {
	p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = "gpu-01", "node-uid"
}

func TestCases_A25_WhatCountsOnANode(t *testing.T) {
	sidecar := pod("mesh", func(p *corev1.Pod) { // its main container has ended, its sidecar runs on
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
			{Name: "istio-proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}
	}, ownedBy("batch/v1", "Job"))
	bare := pod("bare", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	on := []corev1.Pod{
		pod("done", phase(corev1.PodSucceeded), ownedBy("batch/v1", "Job")), pod("failed", phase(corev1.PodFailed)),
		pod("static", mirror, ownedBy("v1", "Node")), pod("daemon", ownedBy("apps/v1", "DaemonSet")), bare, sidecar,
	}
	var counting []string
	for i := range on {
		if node.Occupies(&on[i], "alpha", []string{"alpha"}) {
			counting = append(counting, on[i].Name)
		}
	}
	require.Equal(t, []string{"bare", "mesh"}, counting) // the orphan of a DaemonSet: TestCases_A25_OrphansCount
}
