package inject

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestPod_properties makes pods and bindings at random and holds what Pod answers against what it promises. The seed
// is in the name of a failing run: give it to rand.NewPCG to see it again.
func TestPod_properties(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		raw, in := randomPod(r), randomBindings(r)
		what := fmt.Sprintf("seed %d: %s with %+v", seed, raw, in)

		once, err := mutate(t, raw, in)
		shuffled := slices.Clone(in)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		other, otherErr := mutate(t, raw, shuffled)
		require.Equal(t, err, otherErr, what)
		require.Equal(t, string(once), string(other), "order of bindings: %s", what)
		if err != nil {
			continue
		}
		twice, err := mutate(t, once, in)
		require.NoError(t, err, what)
		require.Equal(t, string(once), string(twice), "twice: %s", what)

		var before, after any
		require.NoError(t, json.Unmarshal(raw, &before))
		require.NoError(t, json.Unmarshal(once, &after))
		require.True(t, within(before, after), "all that was there is there: %s became %s", what, once)
		neverWider(t, raw, once, what)
	}
}

// within reports whether all of a is in b: maps may have more keys, lists more elements at the end, and null may have
// become anything.
func within(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		for k, v := range a {
			ok = ok && within(v, b[k])
		}
		return ok
	case []any:
		b, ok := b.([]any)
		ok = ok && len(b) >= len(a)
		for i := range a {
			ok = ok && within(a[i], b[i])
		}
		return ok
	}
	return reflect.DeepEqual(a, b)
}

// neverWider looks at every kind of node that the random pods can tell apart: where the pod could not run before, it
// cannot run after.
func neverWider(t *testing.T, before, after []byte, what string) {
	t.Helper()
	for _, zone := range []string{"", "a", "b"} {
		for _, tenant := range []string{"", "alpha", "beta"} {
			node := map[string]string{}
			if zone != "" {
				node["zone"] = zone
			}
			if tenant != "" {
				node["reserved.tenant"] = tenant
			}
			if affine(t, after, node) {
				require.True(t, affine(t, before, node), "wider on %v: %s became %s", node, what, after)
			}
		}
	}
}

// affine reports whether the required node affinity lets the pod on a node with these labels.
func affine(t *testing.T, raw []byte, node map[string]string) bool {
	t.Helper()
	var p corev1.Pod
	require.NoError(t, json.Unmarshal(raw, &p))
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms,
		func(term corev1.NodeSelectorTerm) bool {
			empty := len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0
			return !empty && !slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
				value, has := node[e.Key]
				switch e.Operator {
				case corev1.NodeSelectorOpIn:
					return !has || !slices.Contains(e.Values, value)
				case corev1.NodeSelectorOpNotIn:
					return has && slices.Contains(e.Values, value)
				case corev1.NodeSelectorOpExists:
					return !has
				case corev1.NodeSelectorOpDoesNotExist:
					return has
				}
				return true
			})
		})
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func some(r *rand.Rand, most int, from ...string) []json.RawMessage {
	out := []json.RawMessage{}
	for range r.IntN(most + 1) {
		out = append(out, json.RawMessage(pick(r, from...)))
	}
	return out
}

// randomPod returns a pod with keys that are missing, null, empty or filled, and unknown ones beside them.
func randomPod(r *rand.Rand) []byte {
	maybe := func(m map[string]any, key string, make func() any) {
		switch r.IntN(8) {
		case 0, 1:
		case 2:
			m[key] = nil
		default:
			m[key] = make()
		}
	}
	unknown := func() map[string]any {
		m := map[string]any{}
		if r.IntN(3) == 0 {
			m["future"] = map[string]any{"x": r.IntN(9)}
		}
		return m
	}
	term := func() any {
		m := unknown()
		maybe(m, "matchExpressions", func() any {
			return some(r, 3, zoneA, out, reqR, `{"key":"reserved.tenant","operator":"In","values":["beta","alpha"]}`,
				`{"key":"reserved.tenant","operator":"NotIn","values":["alpha"]}`, `{"key":"zone","operator":"Exists","odd":1}`)
		})
		maybe(m, "matchFields", func() any { return some(r, 1, `{"key":"metadata.name","operator":"In","values":["nX"]}`) })
		return m
	}
	spec := unknown()
	maybe(spec, "affinity", func() any {
		affinity := unknown()
		maybe(affinity, "nodeAffinity", func() any {
			nodeAffinity := unknown()
			maybe(nodeAffinity, "requiredDuringSchedulingIgnoredDuringExecution", func() any {
				terms := []any{}
				for range r.IntN(4) {
					terms = append(terms, term())
				}
				return map[string]any{"nodeSelectorTerms": terms}
			})
			return nodeAffinity
		})
		return affinity
	})
	maybe(spec, "tolerations", func() any {
		return some(r, 3, wildcard, tolT, `{"key":"reserved","operator":"Exists","effect":"NoExecute"}`,
			`{"key":"gpu","operator":"Exists"}`, `{"key":"reserved","value":"beta","odd":[1]}`)
	})
	maybe(spec, "nodeSelector", func() any { return pick(r, map[string]any{"zone": "a"}, map[string]any{"reserved.tenant": "alpha"}) })
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"labels":          map[string]string{"team": pick(r, "train", "debug")},
			"ownerReferences": json.RawMessage(pick(r, "null", "[]", daemonSet, daemonSetNot)),
		},
		"spec": spec,
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func randomBindings(r *rand.Rand) []Binding {
	var in []Binding
	for i := range r.IntN(4) {
		in = append(in, alphaBind(func(b *Binding) {
			b.Name = fmt.Sprintf("bind-%d", i)
			b.Tenant = pick(r, "alpha", "alpha", "alpha", "beta")
			b.Effect = pick(r, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)
			b.Affinity, b.Toleration = r.IntN(3) > 0, r.IntN(3) > 0
			b.Selector = pick(r, b.Selector, labels.Everything(), labels.Nothing())
		}))
	}
	return in
}

// FuzzPod gives Pod whatever may come over the wire: it never panics, and its patch can be applied and is complete.
func FuzzPod(f *testing.F) {
	for seed := range uint64(64) {
		r := rand.New(rand.NewPCG(seed, 2))
		f.Add(randomPod(r), seed%2 == 0)
	}
	for _, raw := range []string{``, `{}`, `null`, `{"spec":{}}`, `{"spec":{"Affinity":{},"tolerations":[null]}}`,
		`{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[null,{"matchExpressions":[null]}]}}}}}`} {
		f.Add([]byte(raw), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, affinity bool) {
		in := bindings(alphaBind(func(b *Binding) { b.Affinity = affinity }), alphaBind(named("other"), selectingAll, effect(corev1.TaintEffectNoExecute)))
		if _, err := Pod(raw, in); err != nil {
			return
		}
		// A key that stands twice means different things to different readers; the API server never sends one.
		var whole map[string]any
		if json.Unmarshal(raw, &whole) != nil {
			return
		}
		normal, err := json.Marshal(whole)
		require.NoError(t, err)
		once, err := mutate(t, normal, in)
		if err != nil {
			return
		}
		twice, err := mutate(t, once, in)
		require.NoError(t, err)
		require.JSONEq(t, string(once), string(twice))
	})
}

func BenchmarkPod(b *testing.B) {
	raw := []byte(example(`{"containers":[{"name":"trainer","image":"i"}],"tolerations":[{"key":"x","operator":"Exists"}],"affinity":` + required(exprs(zoneA)) + `}`))
	in := bindings(alphaBind(), alphaBind(named("other"), effect(corev1.TaintEffectNoExecute)))
	for b.Loop() {
		if _, err := Pod(raw, in); err != nil {
			b.Fatal(err)
		}
	}
}
