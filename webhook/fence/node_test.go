package fence_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/webhook/fence"
)

// ways are the two resources by which a pod can be bound.
var ways = map[string]func(t *testing.T, pod *corev1.Pod, node string) error{
	"pods/binding": func(t *testing.T, pod *corev1.Pod, node string) error {
		return live.typed.CoreV1().Pods(pod.Namespace).Bind(t.Context(), target(pod, node), metav1.CreateOptions{})
	},
	"bindings": func(t *testing.T, pod *corev1.Pod, node string) error {
		return live.typed.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("bindings").
			Body(target(pod, node)).Do(t.Context()).Error()
	},
}

func target(pod *corev1.Pod, node string) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
}

func TestBindsAreRefusedByNamespace(t *testing.T) {
	c := cluster(t)
	foreign, tenant, second := namespace(t), namespace(t), namespace(t)
	version := grant(t, map[string][]string{"gpu-01": {tenant, second}, "gpu-1": {second}, "gpu-04": nil})
	tests := map[string]struct {
		namespace, node string
		refused         bool
	}{
		"foreign namespace, reserved node":                       {foreign, "gpu-01", true},
		"accepted namespace":                                     {tenant, "gpu-01", false},
		"second accepted namespace":                              {second, "gpu-01", false},
		"accepted elsewhere only":                                {tenant, "gpu-1", true},
		"releasing node, once its tenant":                        {tenant, "gpu-04", true},
		"free node":                                              {foreign, "gpu-02", false},
		"free node whose name begins like a reserved one's":      {foreign, "gpu-011", false},
		"free node whose name ends like a reserved one's":        {foreign, "x-gpu-01", false},
		"kube-system is exempt":                                  {"kube-system", "gpu-01", false},
		"the operator's namespace is exempt":                     {operator, "gpu-01", false},
		"exempt by name":                                         {"exempt-by-name", "gpu-01", false},
		"exempt by label":                                        {"exempt-by-label", "gpu-01", false},
		"the probe's node, with which only the probe is to fail": {foreign, v1alpha1.ProbeNode, true},
	}
	for name, test := range tests {
		for way, bind := range ways {
			t.Run(name+", by "+way, func(t *testing.T) {
				p := pod(test.namespace)
				require.NoError(t, c.Create(t.Context(), p))
				t.Cleanup(func() { _ = c.Delete(after(t), p) })
				err := bind(t, p, test.node)
				if !test.refused {
					require.NoError(t, err)
					return
				}
				requireRefused(t, err, fence.BindingsName, fmt.Sprintf(
					"node %s is reserved and does not accept pods of namespace %s; use a ReservationBinding, or leave the choice to the scheduler (reservation index %d)",
					test.node, test.namespace, version))
				require.NotContains(t, err.Error(), second+" ", "the refusal names no other tenant")
			})
		}
	}
}

func TestPodsWithNodeNameAreRefusedByNamespace(t *testing.T) {
	c := cluster(t)
	foreign, tenant := namespace(t), namespace(t)
	version := grant(t, map[string][]string{"gpu-01": {tenant}})
	tests := map[string]struct {
		namespace, node string
		refused         bool
	}{
		"foreign namespace, reserved node": {foreign, "gpu-01", true},
		"accepted namespace":               {tenant, "gpu-01", false},
		"free node":                        {foreign, "gpu-02", false},
		"no node":                          {foreign, "", false},
		"kube-system is exempt":            {"kube-system", "gpu-01", false},
		"exempt by name":                   {"exempt-by-name", "gpu-01", false},
		"exempt by label":                  {"exempt-by-label", "gpu-01", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), pod(test.namespace, onNode(test.node)), client.DryRunAll)
			if !test.refused {
				require.NoError(t, err)
				return
			}
			requireRefused(t, err, fence.PodsName, fmt.Sprintf(
				"node gpu-01 is reserved and does not accept pods of namespace %s; remove spec.nodeName or use a ReservationBinding (reservation index %d)",
				foreign, version))
		})
	}
}

func TestWithoutTheIndexOnlyExemptNamespacesPass(t *testing.T) {
	c := cluster(t)
	ordinary := namespace(t)
	require.NoError(t, c.Create(t.Context(), pod(ordinary), client.DryRunAll)) // its service account is there now
	index := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: v1alpha1.IndexName}}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(index), index))
	require.NoError(t, c.Delete(t.Context(), index))
	t.Cleanup(func() {
		index.ResourceVersion, index.UID = "", ""
		assert.NoError(t, c.Create(after(t), index))
		assert.NoError(t, fence.Probe{Client: c}.Await(after(t), 1))
	})
	eventually(t, func(ct *assert.CollectT) {
		err := c.Create(t.Context(), pod(ordinary), client.DryRunAll)
		require.Error(ct, err)
		assert.Contains(ct, err.Error(), "no params found")
	})
	require.NoError(t, c.Create(t.Context(), pod("kube-system"), client.DryRunAll))
	require.NoError(t, c.Create(t.Context(), pod("exempt-by-name", onNode("gpu-01")), client.DryRunAll))

	_, err := fence.Probe{Client: c}.Version(t.Context())
	require.ErrorContains(t, err, "no params found")
	require.NotErrorIs(t, err, fence.ErrNotEnforced)
}

func TestADamagedIndexRefusesNodesButNotPods(t *testing.T) {
	c := cluster(t)
	ordinary := namespace(t)
	index := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: v1alpha1.IndexName}}
	for name, data := range map[string]map[string]string{"no data": nil, "no nodes": {"version": "3"}, "empty nodes": {"nodes": "", "version": "3"}} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(index), index))
			before := index.DeepCopy()
			index.Data = data
			require.NoError(t, c.Update(t.Context(), index))
			t.Cleanup(func() {
				before.ResourceVersion = ""
				assert.NoError(t, c.Update(after(t), before))
				assert.NoError(t, fence.Probe{Client: c}.Await(after(t), 1))
			})
			eventually(t, func(ct *assert.CollectT) {
				err := c.Create(t.Context(), pod(ordinary, onNode("gpu-77")), client.DryRunAll)
				require.Error(ct, err)
				assert.Contains(ct, err.Error(), "the reservation index is damaged")
			})
			require.NoError(t, c.Create(t.Context(), pod(ordinary), client.DryRunAll))
		})
	}
}

// An index near the limit of a ConfigMap, with the longest names, stays within the budget for expressions.
func TestAFullIndexStillDecides(t *testing.T) {
	c := cluster(t)
	tenant, foreign := namespace(t), namespace(t)
	node := func(i int) string {
		return fmt.Sprintf("gpu-%05d.%s.%s.%s", i, strings.Repeat("a", 63), strings.Repeat("b", 63), strings.Repeat("c", 63))
	}
	const size = 900 << 10
	index := allocate.Index{Grants: map[string]allocate.Grant{}}
	var last string
	for i, bytes := 0, 0; bytes < size; i++ {
		last = node(i)
		index.Grants[last] = allocate.Grant{Reservation: "r", Namespaces: []string{tenant}}
		bytes += len(last) + len(tenant) + 2
	}
	writeIndex(t, func(version int64) map[string]string {
		index.Version = version
		data := index.Data()
		data[allocate.KeyGrants] = "" // both do not fit, and the fence reads only one
		return data
	})
	t.Cleanup(func() { grant(t, nil) })

	begin := time.Now()
	const rounds = 20
	for range rounds {
		require.NoError(t, c.Create(t.Context(), pod(tenant, onNode(last)), client.DryRunAll))
	}
	t.Logf("%d nodes, %d KiB: %s per pod with spec.nodeName", len(index.Grants), size>>10, time.Since(begin)/rounds)
	requireRefused(t, c.Create(t.Context(), pod(foreign, onNode(last)), client.DryRunAll), fence.PodsName, "is reserved")
	require.NoError(t, c.Create(t.Context(), pod(foreign, onNode("free")), client.DryRunAll))
}
