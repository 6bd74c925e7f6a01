package validate

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Handler answers the admission requests for one kind. Make one with NewReservationHandler or NewBindingHandler; it is
// safe for concurrent use.
type Handler struct {
	kind, resource string
	decide         func(ctx context.Context, req admission.Request) (verdict, error)
}

var _ admission.Handler = (*Handler)(nil)

// verdict is what the rules say.
type verdict struct {
	errs     field.ErrorList
	warnings []string
}

// malformedError says that a request holds no object of the kind.
type malformedError struct{ error }

// NewReservationHandler returns the handler for Reservations. It reads the others from reader, which may be a cache: a
// race that it cannot see is settled by the allocation. self is the operator's own user name, whose writes are not
// checked for overlaps: a handover between two Reservations of one commit passes through one.
func NewReservationHandler(reader client.Reader, self string) *Handler {
	return &Handler{kind: "Reservation", resource: "reservations", decide: func(ctx context.Context, req admission.Request) (verdict, error) {
		candidate, old, err := decode[v1alpha1.Reservation](req)
		if err != nil {
			return verdict{}, err
		}
		var others v1alpha1.ReservationList
		if !isOwn(req, self) && candidate.DeletionTimestamp.IsZero() && len(added(candidate, old)) > 0 {
			// Nothing here is changed, so the cache's own objects do.
			if err := reader.List(ctx, &others, client.UnsafeDisableDeepCopy); err != nil {
				return verdict{}, fmt.Errorf("listing Reservations: %w", err)
			}
		}
		return verdict{errs: Reservation(candidate, old, others.Items)}, nil
	}}
}

// NewBindingHandler returns the handler for ReservationBindings. It reads the Reservation from reader, which should be
// live and not a cache: where one kubectl apply adds the namespace to the Reservation and then makes the binding, a
// cache does not know yet. self is the operator's own user name: the Reservation that it is about to write in the same
// commit may be the one that accepts the binding, so its right is not checked here. The commit check and the binding's
// status do that.
func NewBindingHandler(reader client.Reader, self string) *Handler {
	return &Handler{kind: "ReservationBinding", resource: "reservationbindings", decide: func(ctx context.Context, req admission.Request) (verdict, error) {
		candidate, old, err := decode[v1alpha1.ReservationBinding](req)
		if err != nil || !changed(candidate, old) {
			return verdict{}, err
		}
		candidate.Namespace = req.Namespace // its own may be empty
		if isOwn(req, self) {
			return verdict{errs: Binding(candidate, old, nil)}, nil
		}
		reservation := &v1alpha1.Reservation{}
		switch err := reader.Get(ctx, types.NamespacedName{Name: candidate.Spec.ReservationName}, reservation); {
		case apierrors.IsNotFound(err):
			reservation = nil
		case err != nil:
			return verdict{}, fmt.Errorf("reading Reservation %s: %w", candidate.Spec.ReservationName, err)
		}
		return verdict{errs: Binding(candidate, old, reservation), warnings: BindingWarnings(candidate, old, reservation)}, nil
	}}
}

// isOwn reports whether the operator itself writes what a commit says: its user with its field manager. The user alone
// would not do, since a person who runs the operator by hand is that user, too.
func isOwn(req admission.Request, self string) bool {
	var options struct {
		FieldManager string `json:"fieldManager"`
	}
	return req.UserInfo.Username == self && json.Unmarshal(req.Options.Raw, &options) == nil && options.FieldManager == v1alpha1.FieldManagerSource
}

// Handle answers one request. An invalid object is refused with 422, one that its author has no right to with 403, what
// is no object of the kind with 400, and 500 means that something could not be read: try again. Anything but a creation
// or an update is allowed.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update || req.SubResource != "" {
		return admission.Allowed("")
	}
	v, err := h.decide(ctx, req)
	var malformed malformedError
	if errors.As(err, &malformed) {
		return admission.Errored(http.StatusBadRequest, malformed)
	}
	if err != nil {
		logf.FromContext(ctx).Error(err, "validating", "kind", h.kind, "name", req.Name, "uid", req.UID)
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("%w; try again", err))
	}
	if len(v.errs) == 0 {
		return admission.Allowed("").WithWarnings(v.warnings...)
	}
	status := h.refusal(req.Name, v.errs).Status()
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}.WithWarnings(v.warnings...)
}

// refusal is Forbidden if nothing but a right is missing. Else it is Invalid, on which kubectl edit opens the editor
// again.
func (h *Handler) refusal(name string, errs field.ErrorList) *apierrors.StatusError {
	for _, err := range errs {
		if err.Type != field.ErrorTypeForbidden {
			return apierrors.NewInvalid(schema.GroupKind{Group: v1alpha1.Group, Kind: h.kind}, name, errs)
		}
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.Group, Resource: h.resource}, name, errs.ToAggregate())
}

// decode returns the object of a request and, on an update, what it was before.
func decode[T any](req admission.Request) (candidate, old *T, err error) {
	if candidate, err = decodeOne[T](req.Object); err != nil || req.Operation != admissionv1.Update {
		return candidate, nil, err
	}
	old, err = decodeOne[T](req.OldObject)
	return candidate, old, err
}

func decodeOne[T any](from runtime.RawExtension) (*T, error) {
	to := new(T)
	if err := json.Unmarshal(from.Raw, to); err != nil {
		return nil, malformedError{fmt.Errorf("decoding the object: %w", err)}
	}
	return to, nil
}
