package inject

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Bindings answers which bindings count in a namespace.
type Bindings interface {
	// InNamespace returns the accepted bindings of a namespace, in any order; nil if there is none. It answers from
	// memory and is safe for concurrent use. The caller does not change what it gets.
	InNamespace(ctx context.Context, namespace string) ([]Binding, error)
}

// Handler answers the admission requests for pods. Make one with NewHandler; it is safe for concurrent use.
type Handler struct {
	bindings Bindings
}

var _ admission.Handler = (*Handler)(nil)

// NewHandler returns a handler that injects what these bindings say.
func NewHandler(bindings Bindings) *Handler {
	return &Handler{bindings: bindings}
}

// Handle answers one request. A pod that must be changed is refused with 403 and what to change; JSON that is no pod
// with 400; a failing lookup with 500, after which the client may try again. Anything but the creation of a pod is
// allowed untouched, whatever the registration asked for: running pods cannot be injected, and an answer there could
// only hold up their deletion.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create || req.Resource.Resource != "pods" || req.SubResource != "" {
		return admission.Allowed("")
	}
	// The request's namespace: the pod's own may be empty here.
	bindings, err := h.bindings.InNamespace(ctx, req.Namespace)
	if err != nil {
		logf.FromContext(ctx).Error(err, "looking up bindings", "namespace", req.Namespace, "uid", req.UID)
		return admission.Errored(http.StatusInternalServerError,
			fmt.Errorf("reading the ReservationBindings of namespace %s: %w; try again", req.Namespace, err))
	}
	patch, err := Pod(req.Object.Raw, bindings)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return admission.Denied(refused.Message)
	case err != nil:
		return admission.Errored(http.StatusBadRequest, err)
	}
	return admission.Patched("", patch...)
}
