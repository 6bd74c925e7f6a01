package fence_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/webhook/fence"
)

type expression = corev1.NodeSelectorRequirement

var (
	keptOut  = expression{Key: "reserved.tenant", Operator: corev1.NodeSelectorOpDoesNotExist}
	zoneA    = expression{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	zoneB    = expression{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}
	nodeName = expression{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"gpu-02"}}
)

func term(expressions ...expression) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: expressions}
}

func pinnedTo(field expression, expressions ...expression) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: expressions, MatchFields: []expression{field}}
}

// required are terms of a pod's required node affinity.
func required(terms ...corev1.NodeSelectorTerm) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}

func termsOf(p *corev1.Pod) []corev1.NodeSelectorTerm {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	return nil
}

func TestKeepOutIsAddedToEveryShape(t *testing.T) {
	c := cluster(t)
	ordinary := namespace(t)
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term(zoneA)}}
	tests := map[string]struct {
		change func(*corev1.PodSpec)
		want   []corev1.NodeSelectorTerm
	}{
		"no affinity":       {func(*corev1.PodSpec) {}, []corev1.NodeSelectorTerm{term(keptOut)}},
		"affinity for pods": {func(s *corev1.PodSpec) { s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}} }, []corev1.NodeSelectorTerm{term(keptOut)}},
		"preferred terms": {func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred}}
		}, []corev1.NodeSelectorTerm{term(keptOut)}},
		"one term":           {required(term(zoneA)), []corev1.NodeSelectorTerm{term(zoneA, keptOut)}},
		"two terms":          {required(term(zoneA), term(zoneB)), []corev1.NodeSelectorTerm{term(zoneA, keptOut), term(zoneB, keptOut)}},
		"an empty term too":  {required(term(zoneA), term(), term(zoneB)), []corev1.NodeSelectorTerm{term(zoneA, keptOut), term(), term(zoneB, keptOut)}},
		"only an empty term": {required(term()), []corev1.NodeSelectorTerm{term()}},
		"a pin by field":     {required(pinnedTo(nodeName)), []corev1.NodeSelectorTerm{pinnedTo(nodeName, keptOut)}},
		"a pin and more":     {required(pinnedTo(nodeName, zoneA)), []corev1.NodeSelectorTerm{pinnedTo(nodeName, zoneA, keptOut)}},
		"there already":      {required(term(zoneA, keptOut)), []corev1.NodeSelectorTerm{term(zoneA, keptOut)}},
		"there in one term":  {required(term(keptOut), term(zoneB)), []corev1.NodeSelectorTerm{term(keptOut), term(zoneB, keptOut)}},
		"another operator": {
			required(term(expression{Key: "reserved.tenant", Operator: corev1.NodeSelectorOpExists})),
			[]corev1.NodeSelectorTerm{term(expression{Key: "reserved.tenant", Operator: corev1.NodeSelectorOpExists}, keptOut)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := pod(ordinary, tolerating(wildcard), test.change)
			want := pod(ordinary, test.change)
			require.NoError(t, c.Create(t.Context(), p, client.DryRunAll))
			require.Empty(t, cmp.Diff(test.want, termsOf(p)))
			if want.Spec.Affinity != nil && want.Spec.Affinity.NodeAffinity != nil {
				require.Empty(t, cmp.Diff(want.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
					p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution))
			}

			again := pod(ordinary, tolerating(wildcard), required(termsOf(p)...))
			require.NoError(t, c.Create(t.Context(), again, client.DryRunAll))
			require.Empty(t, cmp.Diff(test.want, termsOf(again)), "a second time changes nothing")
		})
	}
}

func TestWhichPodsAreKeptOut(t *testing.T) {
	c := cluster(t)
	ordinary := namespace(t)
	seconds := int64(5)
	tests := map[string]struct {
		namespace string
		change    func(*corev1.PodSpec)
		want      bool
	}{
		"no toleration":                 {ordinary, func(*corev1.PodSpec) {}, false},
		"a toleration of another taint": {ordinary, tolerating(corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}), false},
		"everything":                    {ordinary, tolerating(wildcard), true},
		"everything of one effect":      {ordinary, tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}), true},
		"everything of another effect":  {ordinary, tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}), true},
		"the key":                       {ordinary, tolerating(corev1.Toleration{Key: "reserved", Operator: corev1.TolerationOpExists}), true},
		"the key and a tenant":          {ordinary, tolerating(corev1.Toleration{Key: "reserved", Operator: corev1.TolerationOpEqual, Value: "foo"}), true},
		"the key without an operator":   {ordinary, tolerating(corev1.Toleration{Key: "reserved", Value: "foo"}), true},
		"the last of several": {ordinary, tolerating(
			corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}, corev1.Toleration{Key: "reserved", Value: "foo"}), true},
		"kube-system is exempt":            {"kube-system", tolerating(wildcard), false},
		"exempt by name":                   {"exempt-by-name", tolerating(wildcard), false},
		"exempt by label":                  {"exempt-by-label", tolerating(wildcard), false},
		"a pod with a node, of no concern": {ordinary, func(s *corev1.PodSpec) { tolerating(wildcard)(s); onNode("free")(s) }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := pod(test.namespace, test.change)
			require.NoError(t, c.Create(t.Context(), p, client.DryRunAll))
			if test.want {
				require.Empty(t, cmp.Diff([]corev1.NodeSelectorTerm{term(keptOut)}, termsOf(p)))
			} else {
				require.Empty(t, termsOf(p))
			}
		})
	}
}

func TestALargePodIsKeptOutToo(t *testing.T) {
	c := cluster(t)
	ordinary := namespace(t)
	many := make([]corev1.Toleration, 999)
	for i := range many {
		many[i] = corev1.Toleration{Key: fmt.Sprintf("example.com/taint-%d", i), Operator: corev1.TolerationOpExists}
	}
	terms := make([]corev1.NodeSelectorTerm, 500)
	for i := range terms {
		terms[i] = term(zoneA, zoneB)
	}
	p := pod(ordinary, tolerating(many...), tolerating(wildcard), required(terms...))
	begin := time.Now()
	require.NoError(t, c.Create(t.Context(), p, client.DryRunAll))
	t.Logf("1,000 tolerations and 500 terms: %s", time.Since(begin))
	require.Len(t, termsOf(p), 500)
	for _, got := range termsOf(p) {
		require.Empty(t, cmp.Diff(term(zoneA, zoneB, keptOut), got))
	}

	many = make([]corev1.Toleration, 1000)
	for i := range many {
		many[i] = wildcard
	}
	require.NoError(t, c.Create(t.Context(), pod(ordinary, tolerating(many...)), client.DryRunAll))
}

// Whoever sends a pod of thousands of terms cannot have the API server work on each.
func TestAPodOfTooManyTermsIsRefused(t *testing.T) {
	c := cluster(t)
	ordinary := namespace(t)
	for _, count := range []int{501, 5_000, 50_000} {
		terms := make([]corev1.NodeSelectorTerm, count)
		for i := range terms {
			terms[i] = term(expression{Key: "z", Operator: corev1.NodeSelectorOpExists})
		}
		begin := time.Now()
		requireRefused(t, c.Create(t.Context(), pod(ordinary, tolerating(wildcard), required(terms...)), client.DryRunAll),
			fence.KeepOutCheckName, "no more than 500 terms")
		refused := time.Since(begin)
		begin = time.Now()
		require.NoError(t, c.Create(t.Context(), pod("exempt-by-name", tolerating(wildcard), required(terms...)), client.DryRunAll))
		t.Logf("%d terms: refused after %s, without fences created after %s", count, refused, time.Since(begin))
	}
}

// Nor with thousands of tolerations: it counts as one that tolerates all.
func TestAPodOfTooManyTolerationsIsKeptOut(t *testing.T) {
	c := cluster(t)
	ordinary := namespace(t)
	for _, count := range []int{900, 20_000} {
		many := make([]corev1.Toleration, count)
		for i := range many {
			many[i] = corev1.Toleration{Key: fmt.Sprintf("example.com/taint-%d", i), Operator: corev1.TolerationOpExists}
		}
		for _, namespace := range []string{ordinary, "exempt-by-name"} {
			begin := time.Now()
			p := pod(namespace, tolerating(many...))
			require.NoError(t, c.Create(t.Context(), p, client.DryRunAll))
			t.Logf("%d tolerations in %s: %s", count, namespace, time.Since(begin))
			require.Equal(t, count > 1_000 && namespace == ordinary, len(termsOf(p)) == 1)
		}
	}
}

func TestATolerationAddedLaterIsRefused(t *testing.T) {
	c := cluster(t)
	ordinary := namespace(t)
	ofFoo := corev1.Toleration{Key: "reserved", Operator: corev1.TolerationOpEqual, Value: "foo", Effect: corev1.TaintEffectNoSchedule}
	inFoo := expression{Key: "reserved.tenant", Operator: corev1.NodeSelectorOpIn, Values: []string{"foo"}}
	tests := map[string]struct {
		bound   bool // the namespace has accepted bindings while the pod is created
		change  func(*corev1.PodSpec)
		add     *corev1.Toleration
		refused bool
	}{
		"a wildcard":                            {false, func(*corev1.PodSpec) {}, &wildcard, true},
		"a tenant's taint":                      {false, func(*corev1.PodSpec) {}, &ofFoo, true},
		"another taint":                         {false, func(*corev1.PodSpec) {}, &corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}, false},
		"to a pod that keeps out already":       {false, required(term(keptOut)), &wildcard, false},
		"to a pod that demands reserved nodes":  {false, required(term(inFoo)), &wildcard, true},
		"a second one, to a pod kept out":       {false, tolerating(wildcard), &ofFoo, false},
		"nothing, to an old pod":                {true, tolerating(wildcard), nil, false},
		"a second one, to an old pod":           {true, tolerating(ofFoo), &wildcard, true},
		"to an injected pod":                    {true, func(s *corev1.PodSpec) { tolerating(ofFoo)(s); required(term(inFoo))(s) }, &wildcard, false},
		"to a pod of a bound namespace":         {true, func(*corev1.PodSpec) {}, &wildcard, true},
		"to one there that demands other nodes": {true, required(term(inFoo)), &wildcard, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.bound {
				bind(t, ordinary)
			}
			p := pod(ordinary, test.change)
			require.NoError(t, c.Create(t.Context(), p))
			t.Cleanup(func() { _ = c.Delete(after(t), p) })
			patch := map[string]any{"metadata": map[string]any{"labels": map[string]string{"touched": "yes"}}}
			if test.add != nil {
				patch["spec"] = map[string]any{"tolerations": append(p.Spec.Tolerations, *test.add)}
			}
			body, err := json.Marshal(patch)
			require.NoError(t, err)
			err = c.Patch(t.Context(), p, client.RawPatch(types.MergePatchType, body))
			if test.refused {
				requireRefused(t, err, fence.KeepOutCheckName, "cannot be added to this pod later")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestInABoundNamespaceCreationIsLeftToTheWebhook(t *testing.T) {
	c := cluster(t)
	tenant := namespace(t)
	bind(t, tenant)
	p := pod(tenant, tolerating(wildcard))
	require.NoError(t, c.Create(t.Context(), p, client.DryRunAll))
	require.Empty(t, termsOf(p))
}
