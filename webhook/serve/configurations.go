package serve

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Names of the webhook configurations.
const (
	MutatingName   = "reservation-pod-injection"
	ValidatingName = "reservation-validation"
)

// Paths of the webhooks on the operator's server.
const (
	MutatePodsPath                  = "/mutate-pods"
	ValidateReservationsPath        = "/validate-reservations"
	ValidateReservationBindingsPath = "/validate-reservationbindings"
)

// timeoutSeconds is how long the API server waits for an answer, which takes the operator milliseconds. A person who
// saves a Reservation while the operator hangs waits no longer than this either.
const timeoutSeconds = 3

// Mutating returns the configuration that sends new pods of these namespaces, and no others, to be injected; an outage
// of the operator touches nobody else. Without namespaces it has no webhook. ca is the PEM bundle to verify the server
// by; order and repetition of the namespaces do not matter. Every field that the API server would default is set.
//
// It fails closed: a pod that is let through uninjected would wait for ever, or land outside its reservation.
func Mutating(e Endpoint, ca []byte, namespaces []string) *admissionregistrationv1.MutatingWebhookConfiguration {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta(MutatingName)}
	if len(namespaces) == 0 {
		return configuration
	}
	again := admissionregistrationv1.IfNeededReinvocationPolicy
	hook := webhook(e, ca, "inject."+v1alpha1.Group, MutatePodsPath, admissionregistrationv1.Fail)
	hook.Rules = rules(corev1.GroupName, "v1", "pods", admissionregistrationv1.NamespacedScope, admissionregistrationv1.Create)
	hook.NamespaceSelector = byName(metav1.LabelSelectorOpIn, namespaces)
	configuration.Webhooks = []admissionregistrationv1.MutatingWebhook{{
		Name:                    hook.Name,
		ClientConfig:            hook.ClientConfig,
		Rules:                   hook.Rules,
		FailurePolicy:           hook.FailurePolicy,
		MatchPolicy:             hook.MatchPolicy,
		NamespaceSelector:       hook.NamespaceSelector,
		ObjectSelector:          hook.ObjectSelector,
		SideEffects:             hook.SideEffects,
		TimeoutSeconds:          hook.TimeoutSeconds,
		AdmissionReviewVersions: hook.AdmissionReviewVersions,
		ReinvocationPolicy:      &again,
	}}
	return configuration
}

// Validating returns the configuration that has Reservations and ReservationBindings validated when they are created
// or changed; bindings in the exempt namespaces are not. ca is the PEM bundle to verify the server by. Every field that
// the API server would default is set.
//
// It fails open: what it refuses is refused a second time where it counts. Of two Reservations that name one node,
// allocation keeps the first holder; a binding without a right to its Reservation injects nothing. So an operator that
// is down need not stop anybody from editing either.
func Validating(e Endpoint, ca []byte, exempt []string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	write := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	version := v1alpha1.GroupVersion.Version

	reservations := webhook(e, ca, "reservations."+v1alpha1.Group, ValidateReservationsPath, admissionregistrationv1.Ignore)
	reservations.Rules = rules(v1alpha1.Group, version, "reservations", admissionregistrationv1.ClusterScope, write...)

	bindings := webhook(e, ca, "reservationbindings."+v1alpha1.Group, ValidateReservationBindingsPath, admissionregistrationv1.Ignore)
	bindings.Rules = rules(v1alpha1.Group, version, "reservationbindings", admissionregistrationv1.NamespacedScope, write...)
	if len(exempt) > 0 {
		bindings.NamespaceSelector = byName(metav1.LabelSelectorOpNotIn, exempt)
	}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: meta(ValidatingName),
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{reservations, bindings},
	}
}

// webhook is what all have in common. The type for mutation has the same fields and one more.
func webhook(e Endpoint, ca []byte, name, path string, failure admissionregistrationv1.FailurePolicyType) admissionregistrationv1.ValidatingWebhook {
	none, equivalent, timeout := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Equivalent, int32(timeoutSeconds)
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    name,
		ClientConfig:            e.clientConfig(path, ca),
		FailurePolicy:           &failure,
		MatchPolicy:             &equivalent,
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             &none,
		TimeoutSeconds:          &timeout,
		AdmissionReviewVersions: []string{"v1"},
	}
}

func (e Endpoint) clientConfig(path string, ca []byte) admissionregistrationv1.WebhookClientConfig {
	config := admissionregistrationv1.WebhookClientConfig{CABundle: ca}
	if e.URL != "" {
		url := strings.TrimSuffix(e.URL, "/") + path
		config.URL = &url
		return config
	}
	port := e.Port
	if port == 0 {
		port = 443
	}
	config.Service = &admissionregistrationv1.ServiceReference{
		Namespace: e.ServiceNamespace, Name: e.ServiceName, Path: &path, Port: &port,
	}
	return config
}

func rules(group, version, resource string, scope admissionregistrationv1.ScopeType, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}, Scope: &scope,
		},
	}}
}

// byName selects namespaces by the label that the API server itself sets on each.
func byName(operator metav1.LabelSelectorOperator, names []string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: operator, Values: sorted(names),
	}}}
}

// registered returns the namespaces whose pods a configuration sends to be injected, sorted: the inverse of Mutating.
func registered(configuration *admissionregistrationv1.MutatingWebhookConfiguration) []string {
	var names []string
	for _, hook := range configuration.Webhooks {
		if hook.NamespaceSelector == nil {
			continue
		}
		for _, expression := range hook.NamespaceSelector.MatchExpressions {
			if expression.Key == corev1.LabelMetadataName && expression.Operator == metav1.LabelSelectorOpIn {
				names = append(names, expression.Values...)
			}
		}
	}
	return sorted(names)
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": v1alpha1.FieldManager}}
}

// sorted is a sorted copy without repetitions.
func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}
