package validate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

const self = "system:serviceaccount:reservation-operator:reservation-operator"

func reader(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(funcs).WithObjects(objects...).Build()
}

// request is one to create the object or, with what it was before, to update it.
func request(t *testing.T, user string, object, old client.Object) admission.Request {
	t.Helper()
	raw := func(o client.Object) runtime.RawExtension {
		encoded, err := json.Marshal(o)
		require.NoError(t, err)
		return runtime.RawExtension{Raw: encoded}
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Name: object.GetName(), Namespace: object.GetNamespace(), Object: raw(object),
	}}
	req.UserInfo.Username = user
	req.Options.Raw = []byte(`{"fieldManager":"reservation-source"}`)
	if by, person := strings.CutSuffix(user, " with kubectl"); person {
		req.UserInfo.Username, req.Options.Raw = by, []byte(`{"fieldManager":"kubectl-client-side-apply"}`)
	}
	if old != nil {
		req.Operation, req.OldObject = admissionv1.Update, raw(old)
	}
	return req
}

func TestReservationHandler(t *testing.T) {
	bar := reservation("tenant-bar", "gpu-04")
	for name, tc := range map[string]struct {
		req         admission.Request
		wantCode    int32
		wantReason  metav1.StatusReason
		wantMessage string
	}{
		"a good one": {req: request(t, "jane", reservation("tenant-foo", "gpu-01"), nil), wantCode: http.StatusOK},
		"an overlap": {
			req: request(t, "jane", reservation("tenant-foo", "gpu-04"), nil), wantCode: http.StatusUnprocessableEntity, wantReason: metav1.StatusReasonInvalid,
			wantMessage: `Reservation.scheduling.coreweave.cloud "tenant-foo-reservation" is invalid: spec.reservedNodes[0]: Invalid value: "gpu-04": gpu-04 is already in Reservation tenant-bar-reservation`},
		"an overlap by an update": {
			req:      request(t, "jane", reservation("tenant-foo", "gpu-04"), reservation("tenant-foo", "gpu-01")),
			wantCode: http.StatusUnprocessableEntity, wantReason: metav1.StatusReasonInvalid, wantMessage: "remove it there first"},
		"an overlap that was there before": {
			req: request(t, "jane", reservation("tenant-foo", "gpu-04"), reservation("tenant-foo", "gpu-04")), wantCode: http.StatusOK},
		"an overlap by a person who runs the operator": {
			req:      request(t, self+" with kubectl", reservation("tenant-foo", "gpu-04"), nil),
			wantCode: http.StatusUnprocessableEntity, wantReason: metav1.StatusReasonInvalid, wantMessage: "remove it there first"},
		"an overlap by the operator, whose commits are checked as a whole": {
			req: request(t, self, reservation("tenant-foo", "gpu-04"), nil), wantCode: http.StatusOK},
		"a selector that does not parse, by the operator": {
			req: request(t, self, selecting(reservation("tenant-foo"), "Is"), nil), wantCode: http.StatusUnprocessableEntity, wantReason: metav1.StatusReasonInvalid, wantMessage: "spec.nodeSelector"},
		"its own update": {req: request(t, "jane", reservation("tenant-bar", "gpu-04", "gpu-05"), bar), wantCode: http.StatusOK},
		"a deletion": {
			req: admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Delete}}, wantCode: http.StatusOK},
		"a status": {
			req: admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Update, SubResource: "status"}}, wantCode: http.StatusOK},
		"nothing": {
			req:      admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}},
			wantCode: http.StatusBadRequest, wantMessage: "decoding the object"},
		"an update without what it was": {
			req: func() admission.Request {
				req := request(t, "jane", bar, bar)
				req.OldObject = runtime.RawExtension{}
				return req
			}(), wantCode: http.StatusBadRequest, wantMessage: "decoding the object"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := NewReservationHandler(reader(t, interceptor.Funcs{}, bar), self).Handle(t.Context(), tc.req)
			require.Equal(t, tc.wantCode == http.StatusOK, resp.Allowed)
			require.Equal(t, tc.wantCode, resp.Result.Code)
			require.Equal(t, tc.wantReason, resp.Result.Reason)
			require.Contains(t, resp.Result.Message, tc.wantMessage)
		})
	}
}

func TestBindingHandler(t *testing.T) {
	foo := reservation("tenant-foo")
	without := func(namespace string) *v1alpha1.ReservationBinding {
		return podBinding(namespace, func(b *v1alpha1.ReservationBinding) { b.Spec.ReservationName = "missing" })
	}
	for name, tc := range map[string]struct {
		req         admission.Request
		wantCode    int32
		wantReason  metav1.StatusReason
		wantMessage string
		wantWarning string
	}{
		"a good one": {req: request(t, "jane", podBinding("tenant-foo"), nil), wantCode: http.StatusOK},
		"a foreign namespace": {
			req: request(t, "jane", podBinding("tenant-bar"), nil), wantCode: http.StatusForbidden, wantReason: metav1.StatusReasonForbidden,
			wantMessage: "does not accept namespace tenant-bar"},
		"a foreign namespace, and a selector that does not parse": {
			req: request(t, "jane", podBinding("tenant-bar", broken), nil), wantCode: http.StatusUnprocessableEntity, wantReason: metav1.StatusReasonInvalid,
			wantMessage: "does not accept namespace tenant-bar"},
		"a rename to a Reservation without a right to it": {
			req:      request(t, "jane", podBinding("tenant-bar"), without("tenant-bar")),
			wantCode: http.StatusForbidden, wantReason: metav1.StatusReasonForbidden, wantMessage: "does not accept"},
		"no such Reservation": {req: request(t, "jane", without("tenant-foo"), nil), wantCode: http.StatusOK, wantWarning: "until there is a Reservation missing"},
		"by the operator, which may be about to write what accepts it": {req: request(t, self, podBinding("tenant-bar"), nil), wantCode: http.StatusOK},
		"a selector that does not parse, by the operator": {
			req: request(t, self, podBinding("tenant-foo", broken), nil), wantCode: http.StatusUnprocessableEntity, wantReason: metav1.StatusReasonInvalid, wantMessage: "spec.podSelector"},
		"the request's namespace decides": {
			req: func() admission.Request {
				req := request(t, "jane", podBinding("tenant-foo"), nil)
				req.Namespace = "tenant-bar"
				return req
			}(), wantCode: http.StatusForbidden, wantReason: metav1.StatusReasonForbidden, wantMessage: "namespace tenant-bar"},
		"no object": {
			req:      admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(`[]`)}}},
			wantCode: http.StatusBadRequest, wantMessage: "decoding the object"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := NewBindingHandler(reader(t, interceptor.Funcs{}, foo), self).Handle(t.Context(), tc.req)
			require.Equal(t, tc.wantCode == http.StatusOK, resp.Allowed)
			require.Equal(t, tc.wantCode, resp.Result.Code)
			require.Equal(t, tc.wantReason, resp.Result.Reason)
			require.Contains(t, resp.Result.Message, tc.wantMessage)
			if tc.wantWarning == "" {
				require.Empty(t, resp.Warnings)
				return
			}
			require.Len(t, resp.Warnings, 1)
			require.Contains(t, resp.Warnings[0], tc.wantWarning)
		})
	}
}

func TestHandlers_say_that_something_could_not_be_read(t *testing.T) {
	funcs := interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("connection refused")
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("connection refused")
		},
	}
	for name, tc := range map[string]struct {
		handler admission.Handler
		object  client.Object
	}{
		"Reservations": {NewReservationHandler(reader(t, funcs), self), reservation("tenant-foo", "gpu-01")},
		"bindings":     {NewBindingHandler(reader(t, funcs), self), podBinding("tenant-foo")},
	} {
		t.Run(name, func(t *testing.T) {
			resp := tc.handler.Handle(t.Context(), request(t, "jane", tc.object, nil))
			require.False(t, resp.Allowed)
			require.EqualValues(t, http.StatusInternalServerError, resp.Result.Code)
			require.Contains(t, resp.Result.Message, "connection refused; try again")
		})
	}
}
