package inject

import (
	"encoding/json"
	"fmt"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// What the cases below are written with: R, the injected requirement; T, the injected toleration; out, what keeps a
// pod off reserved nodes.
const (
	reqR = `{"key":"reserved.tenant","operator":"In","values":["alpha"]}`
	tolT = `{"key":"reserved","operator":"Equal","value":"alpha","effect":"NoSchedule"}`
	out  = `{"key":"reserved.tenant","operator":"DoesNotExist"}`

	wildcard     = `{"operator":"Exists"}`
	zoneA        = `{"key":"zone","operator":"In","values":["a"]}`
	pinX         = `"matchFields":[{"key":"metadata.name","operator":"In","values":["nX"]}]`
	daemonSet    = `[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"exporter","uid":"1","controller":true}]`
	daemonSetNot = `[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"exporter","uid":"1"}]`
)

// required writes an affinity that requires these terms.
func required(terms string) string {
	return `{"nodeAffinity":` + requiredOnly(terms) + `}`
}

func requiredOnly(terms string) string {
	return fmt.Sprintf(`{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[%s]}}`, terms)
}

// term writes a term with these expressions.
func exprs(expressions string) string { return fmt.Sprintf(`{"matchExpressions":[%s]}`, expressions) }

// example is a pod as a tenant writes it, with labels that alphaBind selects.
func example(spec string) string { return podWith(`{"team":"train"}`, "null", spec) }

// stranger is a pod that alphaBind does not select.
func stranger(spec string) string { return podWith(`{"team":"debug"}`, "null", spec) }

func ownedBy(owners, spec string) string { return podWith(`{"team":"train"}`, owners, spec) }

func podWith(podLabels, owners, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"p-","labels":%s,"ownerReferences":%s},"spec":%s}`,
		podLabels, owners, spec)
}

func alphaBind(change ...func(*Binding)) Binding {
	b := Binding{
		Name: "alpha-bind", Reservation: "alpha-reservation", Tenant: "alpha", Effect: corev1.TaintEffectNoSchedule,
		Selector: labels.SelectorFromSet(labels.Set{"team": "train"}), Affinity: true, Toleration: true,
	}
	for _, f := range change {
		f(&b)
	}
	return b
}

func named(name string) func(*Binding)           { return func(b *Binding) { b.Name = name } }
func of(tenant string) func(*Binding)            { return func(b *Binding) { b.Tenant = tenant } }
func effect(e corev1.TaintEffect) func(*Binding) { return func(b *Binding) { b.Effect = e } }
func selectingAll(b *Binding)                    { b.Selector = labels.Everything() }
func noAffinity(b *Binding)                      { b.Affinity = false }
func noToleration(b *Binding)                    { b.Toleration = false }
func bindings(b ...Binding) []Binding            { return append([]Binding{}, b...) }
func withTerms(terms string) string              { return `{"affinity":` + required(terms) + `}` }
func injected(terms string) string {
	return `{"affinity":` + required(terms) + `,"tolerations":[` + tolT + `]}`
}
func tolerating(tolerations, affinity string) string {
	if affinity == "" {
		return `{"tolerations":[` + tolerations + `]}`
	}
	return `{"tolerations":[` + tolerations + `],"affinity":` + affinity + `}`
}

// mutate applies what Pod decides, the way the API server does.
func mutate(t *testing.T, raw []byte, in []Binding) ([]byte, error) {
	t.Helper()
	patch, err := Pod(raw, in)
	if err != nil || len(patch) == 0 {
		return raw, err
	}
	for _, op := range patch {
		require.Equal(t, "add", op.Operation)
		require.Regexp(t, `^/spec/(affinity|tolerations)(/|$)`, op.Path)
	}
	encoded, err := json.Marshal(patch)
	require.NoError(t, err)
	decoded, err := jsonpatch.DecodePatch(encoded)
	require.NoError(t, err)
	changed, err := decoded.Apply(raw)
	require.NoError(t, err, "%s\n%s", raw, encoded)
	return changed, nil
}

// cases are what Pod is to do, by what is special about the pod. want is the spec afterwards; empty means that it is
// left as it is.
type podCase struct {
	pod      string
	bindings []Binding
	want     string
	wantErr  []string
}

func run(t *testing.T, cases map[string]podCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.bindings == nil {
				tc.bindings = bindings(alphaBind())
			}
			changed, err := mutate(t, []byte(tc.pod), tc.bindings)
			if tc.wantErr != nil {
				var refused *RefusedError
				require.ErrorAs(t, err, &refused)
				for _, want := range tc.wantErr {
					require.Contains(t, refused.Message, want)
				}
				return
			}
			require.NoError(t, err)
			if tc.want == "" {
				require.JSONEq(t, tc.pod, string(changed))
				return
			}
			var before, after map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(tc.pod), &before))
			require.NoError(t, json.Unmarshal(changed, &after))
			require.JSONEq(t, tc.want, string(after["spec"]))
			require.JSONEq(t, string(before["metadata"]), string(after["metadata"]))

			again, err := mutate(t, changed, tc.bindings)
			require.NoError(t, err)
			require.Equal(t, string(changed), string(again), "doing it twice changes nothing")
		})
	}
}
