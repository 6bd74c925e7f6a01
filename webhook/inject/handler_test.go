package inject

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// byNamespace are bindings as a map; the namespace "broken" cannot be read.
type byNamespace map[string][]Binding

func (b byNamespace) InNamespace(_ context.Context, namespace string) ([]Binding, error) {
	if namespace == "broken" {
		return nil, errors.New("the cache is closed")
	}
	return b[namespace], nil
}

func creation(namespace, pod string, change ...func(*admission.Request)) admission.Request {
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Namespace: namespace, Object: runtime.RawExtension{Raw: []byte(pod)},
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
	}}
	for _, f := range change {
		f(&req)
	}
	return req
}

func dryRun(r *admission.Request) { r.DryRun = ptr.To(true) }
func update(r *admission.Request) { r.Operation = admissionv1.Update }

// answer is what the API server gets: the handler's answer, with its patch encoded.
func answer(t *testing.T, req admission.Request) admission.Response {
	t.Helper()
	handler := NewHandler(byNamespace{"alpha-train": bindings(alphaBind()), "two": bindings(alphaBind(), alphaBind(named("beta-bind"), of("beta")))})
	resp := handler.Handle(t.Context(), req)
	require.NoError(t, resp.Complete(req))
	return resp
}

func TestHandler(t *testing.T) {
	const injection = `{"spec":` + `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":` +
		`{"nodeSelectorTerms":[{"matchExpressions":[` + reqR + `]}]}}},"tolerations":[` + tolT + `]}}`
	for name, tc := range map[string]struct {
		req         admission.Request
		wantCode    int32
		wantMessage string
		wantPatched bool
	}{
		"a tenant's pod":                  {req: creation("alpha-train", example(`{}`)), wantCode: http.StatusOK, wantPatched: true},
		"the same as a dry run":           {req: creation("alpha-train", example(`{}`), dryRun), wantCode: http.StatusOK, wantPatched: true},
		"a pod that no binding selects":   {req: creation("alpha-train", stranger(`{}`)), wantCode: http.StatusOK},
		"a namespace without bindings":    {req: creation("default", example(`{}`)), wantCode: http.StatusOK},
		"the request's namespace decides": {req: creation("default", `{"metadata":{"namespace":"alpha-train","labels":{"team":"train"}},"spec":{}}`), wantCode: http.StatusOK},
		"an update (A22)":                 {req: creation("alpha-train", example(`{}`), update), wantCode: http.StatusOK},
		"a subresource": {
			req: creation("alpha-train", example(`{}`), func(r *admission.Request) { r.SubResource = "binding" }), wantCode: http.StatusOK},
		"another resource": {
			req: creation("alpha-train", `{}`, func(r *admission.Request) { r.Resource.Resource = "configmaps" }), wantCode: http.StatusOK},
		"a pod of two tenants": {
			req: creation("two", example(`{}`)), wantCode: http.StatusForbidden, wantMessage: "both select this pod"},
		"a pod that contradicts its binding": {
			req:      creation("alpha-train", example(`{"nodeSelector":{"reserved.tenant":"beta"}}`)),
			wantCode: http.StatusForbidden, wantMessage: "ReservationBinding alpha-bind"},
		"no pod at all":                {req: creation("alpha-train", `{"spec":[]}`), wantCode: http.StatusBadRequest, wantMessage: "decoding the pod"},
		"nothing":                      {req: creation("alpha-train", ``), wantCode: http.StatusBadRequest, wantMessage: "decoding the pod"},
		"bindings that cannot be read": {req: creation("broken", example(`{}`)), wantCode: http.StatusInternalServerError, wantMessage: "try again"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := answer(t, tc.req)
			require.Equal(t, tc.wantCode, resp.Result.Code)
			require.Equal(t, tc.wantCode == http.StatusOK, resp.Allowed)
			require.Contains(t, resp.Result.Message, tc.wantMessage)
			require.Equal(t, tc.wantPatched, len(resp.Patch) > 0)
			if tc.wantPatched {
				want, err := jsonpatch.MergePatch(tc.req.Object.Raw, []byte(injection))
				require.NoError(t, err)
				require.JSONEq(t, string(want), string(apply(t, tc.req, resp)))
			}
		})
	}
}

// apply does with the answer what the API server does.
func apply(t *testing.T, req admission.Request, resp admission.Response) []byte {
	t.Helper()
	require.True(t, resp.Allowed)
	if len(resp.Patch) == 0 {
		return req.Object.Raw
	}
	require.Equal(t, admissionv1.PatchTypeJSONPatch, *resp.PatchType)
	patch, err := jsonpatch.DecodePatch(resp.Patch)
	require.NoError(t, err)
	changed, err := patch.Apply(req.Object.Raw)
	require.NoError(t, err)
	return changed
}

// TestCases_A20_unknown_fields_survive takes the pod of a JobSet worker with dynamic resource allocation, a scheduling
// group, and fields that nobody knows.
func TestCases_A20_unknown_fields_survive(t *testing.T) {
	pod := `{"apiVersion":"v1","kind":"Pod","futureTop":1,
		"metadata":{"generateName":"worker-","labels":{"team":"train"},"futureMeta":{"a":null}},
		"spec":{
			"resourceClaims":[{"name":"g","resourceClaimTemplateName":"gpu-tmpl"}],
			"schedulingGroup":{"podGroupName":"workers"},
			"futureField":{"x":1,"big":12345678901234567890,"precise":1.10},
			"containers":[{"name":"c","image":"i","resources":{"claims":[{"name":"g"}]},"futurePolicy":[1]}],
			"tolerations":[{"key":"x","operator":"Exists","futureToleration":true}],
			"affinity":{"futureAffinity":{"y":2},"nodeAffinity":{"futureNode":3,"requiredDuringSchedulingIgnoredDuringExecution":{
				"futureRequired":4,"nodeSelectorTerms":[{"futureTerm":5,"matchExpressions":[{"key":"zone","operator":"In","values":["a"],"futureExpression":6}]}]}}}}}`
	req := creation("alpha-train", pod)
	resp := answer(t, req)

	var ops []struct{ Op, Path string }
	require.NoError(t, json.Unmarshal(resp.Patch, &ops))
	require.Equal(t, []struct{ Op, Path string }{
		{"add", termsPath + "/0/matchExpressions/-"}, {"add", "/spec/tolerations/-"},
	}, ops)

	// Taking the two additions away again leaves the pod as it was, byte for byte of meaning.
	undo, err := jsonpatch.DecodePatch([]byte(`[{"op":"remove","path":"` + termsPath + `/0/matchExpressions/1"},{"op":"remove","path":"/spec/tolerations/1"}]`))
	require.NoError(t, err)
	undone, err := undo.Apply(apply(t, req, resp))
	require.NoError(t, err)
	require.JSONEq(t, pod, string(undone))
	require.Contains(t, string(undone), `12345678901234567890`)
	require.Contains(t, string(undone), `1.10`)
}

// TestCases_A22_invoked_again runs the webhook on its own answer, as the API server does after another webhook has
// changed the pod.
func TestCases_A22_invoked_again(t *testing.T) {
	req := creation("alpha-train", example(`{"containers":[]}`))
	pod := apply(t, req, answer(t, req))
	var sidecar map[string]any
	require.NoError(t, json.Unmarshal(pod, &sidecar))
	sidecar["spec"].(map[string]any)["containers"] = []any{map[string]any{"name": "mesh"}}
	pod, err := json.Marshal(sidecar)
	require.NoError(t, err)
	require.Empty(t, answer(t, creation("alpha-train", string(pod))).Patch)
}
