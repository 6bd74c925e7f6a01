package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// Blocked says that the cluster, not the commit, stands in the way, and that a person must act.
type Blocked struct {
	// Reason is v1alpha1.ReasonCRDMissing or v1alpha1.ReasonForbidden.
	Reason string
	// Message says what is missing and what to do.
	Message string
	// Err is the API server's error.
	Err error
}

// Error is the Message.
func (b *Blocked) Error() string { return b.Message }

// Unwrap returns the API server's error.
func (b *Blocked) Unwrap() error { return b.Err }

// missing reports that an object does not exist, also because its kind does not.
func missing(err error) bool { return apierrors.IsNotFound(err) }

// isTerminating reports that an object was refused because its namespace is being deleted.
func isTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// explain returns a *Blocked if the error is one that a person must cure, else the error with what was being done.
func (a *Applier) explain(ctx context.Context, verb string, e Entry, err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return crdMissing(e, err)
	case apierrors.IsForbidden(err):
		if blocked := a.forbidden(ctx, e, err, verb); blocked != nil {
			return blocked
		}
	}
	return fmt.Errorf("%s %s: %w", map[string]string{"get": "reading", "delete": "deleting"}[verb], Name(e), err)
}

// judge says what an error of a dry run means: findings about the commit, or an error that is not its fault.
func (a *Applier) judge(ctx context.Context, s Step, err error) ([]render.Finding, error) {
	e := s.Entry()
	status := statusOf(err)
	switch {
	case meta.IsNoMatchError(err):
		return nil, crdMissing(e, err)
	case apierrors.IsNotFound(err) && status.Details != nil && status.Details.Kind == "namespaces":
		return []render.Finding{finding(s, "metadata.namespace", fmt.Sprintf(
			"the namespace %s does not exist: add a Namespace to the commit", e.Namespace))}, nil
	case apierrors.IsNotFound(err):
		return nil, crdMissing(e, err)
	case apierrors.IsForbidden(err):
		if blocked := a.forbidden(ctx, e, err, "patch", "create"); blocked != nil {
			return nil, blocked
		}
		return refusals(s, status), nil
	case isRefusal(status) || apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict):
		return refusals(s, status), nil
	}
	return nil, fmt.Errorf("trying %s: %w", Name(e), err)
}

// failure says why an object could not be written.
func (a *Applier) failure(ctx context.Context, s Step, err error) render.Finding {
	findings, err := a.judge(ctx, s, err)
	if err != nil {
		return finding(s, "", err.Error())
	}
	return findings[0]
}

// isRefusal reports that the API server understood the request and will give the same answer to the same object.
func isRefusal(status metav1.Status) bool {
	switch status.Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusUnprocessableEntity:
		return true
	case http.StatusInternalServerError:
		_, _, misfit := schemaMisfit(status.Message)
		return misfit
	}
	return false
}

// What does not fit the schema of a server-side apply comes back as a server error without a reason or causes:
//
//	failed to create typed patch object (tenant-foo/q; /v1, Kind=ResourceQuota): .spec.hards: field not declared in schema
//	failed to convert new object (tenant-foo/q; /v1, Kind=ResourceQuota) to proper version: unable to convert …: quantities must …
var misfits = regexp.MustCompile(`^failed to (?:create typed patch object|convert new object) \(.*?\)(?: to proper version: unable to convert .*?)?: (?:\.([^ ]+): )?(.*)$`)

// schemaMisfit takes such a message apart. The field may be empty.
func schemaMisfit(message string) (field, problem string, ok bool) {
	m := misfits.FindStringSubmatch(message)
	if m == nil {
		return "", "", false
	}
	problem, _, _ = strings.Cut(m[2], ", got &") // what follows is the inside of a Go value
	return m[1], problem, true
}

// refusals returns a finding per cause of a refusal; one for the whole if it names none.
func refusals(s Step, status metav1.Status) []render.Finding {
	var out []render.Finding
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			message := cause.Message
			if cause.Type == metav1.CauseTypeFieldManagerConflict {
				message = fmt.Sprintf("is held by another field manager (%s): make the commit say the same as the live object, "+
					"or have that manager give the field up", cause.Message)
			}
			if cause.Field != "<nil>" && message != "" { // <nil>: that rules were not checked because of the other causes
				out = append(out, finding(s, strings.TrimPrefix(cause.Field, "."), message))
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	if field, problem, ok := schemaMisfit(status.Message); ok {
		return []render.Finding{finding(s, field, problem)}
	}
	return []render.Finding{finding(s, "", strings.ReplaceAll(status.Message, trialName(s.Entry()), s.Object.GetName()))}
}

func finding(s Step, field, message string) render.Finding {
	return render.Finding{
		File: s.Object.File, Line: s.Object.Line, Field: field, Message: message,
		Kind: s.Object.GetKind(), Namespace: s.Object.GetNamespace(), Name: s.Object.GetName(),
	}
}

func statusOf(err error) metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return metav1.Status{}
	}
	return status.Status()
}

func crdMissing(e Entry, err error) *Blocked {
	return &Blocked{Reason: v1alpha1.ReasonCRDMissing, Err: err, Message: fmt.Sprintf(
		"the cluster does not serve %s (%s/%s): install the operator's CRDs (config/crd)", e.Kind, e.Group, e.Version)}
}

// forbidden asks the API server whether the operator may not do this at all. It returns nil if it may, so that the
// refusal was about the object: admission answers with the same code.
func (a *Applier) forbidden(ctx context.Context, e Entry, err error, verbs ...string) *Blocked {
	resource := a.resource(e)
	for _, verb := range verbs {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: e.Group, Resource: resource, Namespace: e.Namespace, Name: e.Name,
			},
		}}
		if a.Client.Create(ctx, review) != nil || review.Status.Allowed {
			continue
		}
		return &Blocked{Reason: v1alpha1.ReasonForbidden, Err: err, Message: fmt.Sprintf(
			"the operator may not %s %s: give it the right. Check with: kubectl auth can-i %s %s%s --as=%s",
			verb, Name(e), verb, qualified(resource, e.Group), inNamespace(e.Namespace), a.UserName())}
	}
	return nil
}

func (a *Applier) resource(e Entry) string {
	gvk := groupVersionKind(e)
	if mapping, err := a.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err == nil {
		return mapping.Resource.Resource
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural.Resource
}

// UserName is whom the API server knows the operator as, for messages.
func (a *Applier) UserName() string {
	if a.User != "" {
		return a.User
	}
	return fmt.Sprintf("system:serviceaccount:%s:reservation-operator", a.Namespace)
}

func qualified(resource, group string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " -n " + namespace
}
