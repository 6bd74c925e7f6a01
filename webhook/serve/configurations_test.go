package serve_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reservation-operator/reservation-operator/webhook/serve"
)

var service = serve.Endpoint{ServiceNamespace: "op", ServiceName: "webhooks"}

func TestInjectionIsRegisteredForTheseNamespacesAlone(t *testing.T) {
	tests := map[string]struct {
		namespaces []string
		want       []string
	}{
		"none, so no webhook": {},
		"one":                 {[]string{"tenant-foo"}, []string{"tenant-foo"}},
		"sorted, once each":   {[]string{"b", "a", "b"}, []string{"a", "b"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := serve.Mutating(service, []byte("ca"), test.namespaces)
			require.Equal(t, "reservation-pod-injection", got.Name)
			if test.want == nil {
				require.Empty(t, got.Webhooks)
				return
			}
			want := []admissionregistrationv1.MutatingWebhook{{
				Name: "inject.scheduling.coreweave.cloud",
				ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: []byte("ca"), Service: &admissionregistrationv1.ServiceReference{
					Namespace: "op", Name: "webhooks", Path: ptr.To("/mutate-pods"), Port: ptr.To[int32](443),
				}},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{"CREATE"},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: ptr.To(admissionregistrationv1.NamespacedScope),
					},
				}},
				FailurePolicy: ptr.To(admissionregistrationv1.Fail),
				MatchPolicy:   ptr.To(admissionregistrationv1.Equivalent),
				NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: "kubernetes.io/metadata.name", Operator: "In", Values: test.want,
				}}},
				ObjectSelector:          &metav1.LabelSelector{},
				SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
				TimeoutSeconds:          ptr.To[int32](3),
				AdmissionReviewVersions: []string{"v1"},
				ReinvocationPolicy:      ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy),
			}}
			require.Empty(t, cmp.Diff(want, got.Webhooks))
		})
	}
}

func TestValidationFailsOpen(t *testing.T) {
	got := serve.Validating(service, []byte("ca"), []string{"op", "kube-system"})
	require.Equal(t, "reservation-validation", got.Name)
	require.Len(t, got.Webhooks, 2)
	wantPath := map[string]string{
		"reservations.scheduling.coreweave.cloud":        "/validate-reservations",
		"reservationbindings.scheduling.coreweave.cloud": "/validate-reservationbindings",
	}
	wantScope := map[string]admissionregistrationv1.ScopeType{"reservations": "Cluster", "reservationbindings": "Namespaced"}
	for _, hook := range got.Webhooks {
		require.Equal(t, admissionregistrationv1.Ignore, *hook.FailurePolicy)
		require.Equal(t, wantPath[hook.Name], *hook.ClientConfig.Service.Path)
		require.EqualValues(t, 3, *hook.TimeoutSeconds)
		require.Equal(t, admissionregistrationv1.SideEffectClassNone, *hook.SideEffects)
		require.Equal(t, []admissionregistrationv1.OperationType{"CREATE", "UPDATE"}, hook.Rules[0].Operations)
		require.Equal(t, wantScope[hook.Rules[0].Resources[0]], *hook.Rules[0].Scope)
	}
	require.Empty(t, got.Webhooks[0].NamespaceSelector.MatchExpressions)
	require.Equal(t, []string{"kube-system", "op"}, got.Webhooks[1].NamespaceSelector.MatchExpressions[0].Values)
	require.Empty(t, serve.Validating(service, nil, nil).Webhooks[1].NamespaceSelector.MatchExpressions)
}

func TestEndpointsBecomeClientConfigs(t *testing.T) {
	tests := map[string]struct {
		endpoint serve.Endpoint
		want     admissionregistrationv1.WebhookClientConfig
	}{
		"a Service with a port of its own": {serve.Endpoint{ServiceNamespace: "op", ServiceName: "hooks", Port: 9443},
			admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: "op", Name: "hooks", Path: ptr.To("/validate-reservations"), Port: ptr.To[int32](9443),
			}}},
		"a URL, which wins": {serve.Endpoint{URL: "https://localhost:9443/", ServiceName: "hooks", ServiceNamespace: "op"},
			admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://localhost:9443/validate-reservations")}},
		"a URL with a path": {serve.Endpoint{URL: "https://example.com/hooks"},
			admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://example.com/hooks/validate-reservations")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, cmp.Diff(test.want, serve.Validating(test.endpoint, nil, nil).Webhooks[0].ClientConfig))
		})
	}
}

func TestEndpointsAreValidated(t *testing.T) {
	tests := map[string]struct {
		endpoint serve.Endpoint
		want     []string
	}{
		"a Service":                  {service, nil},
		"a URL":                      {serve.Endpoint{URL: "https://localhost:9443"}, nil},
		"nothing":                    {serve.Endpoint{}, []string{"neither a URL nor"}},
		"a Service without its name": {serve.Endpoint{ServiceNamespace: "op"}, []string{"neither a URL nor"}},
		"an address, and no TLS":     {serve.Endpoint{URL: "http://127.0.0.1:9443"}, []string{"https", "DNS name"}},
		"a user and a query":         {serve.Endpoint{URL: "https://me:secret@localhost?a=b"}, []string{"no user, query"}},
		"no URL":                     {serve.Endpoint{URL: "https://local host"}, []string{"webhook endpoint"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.endpoint.Validate()
			if test.want == nil {
				require.NoError(t, err)
			}
			for _, part := range test.want {
				require.ErrorContains(t, err, part)
				require.NotContains(t, err.Error(), "secret")
			}
		})
	}
}

func TestCertificateNamesBeginWithTheOneThatIsCalled(t *testing.T) {
	require.Equal(t, []string{"webhooks.op.svc", "webhooks.op.svc.cluster.local", "webhooks.op", "localhost"}, service.DNSNames())
	require.Equal(t, []string{"localhost"}, serve.Endpoint{URL: "https://localhost:9443"}.DNSNames())
	require.Equal(t, []string{"hooks.example.com", "localhost"}, serve.Endpoint{URL: "https://hooks.example.com"}.DNSNames())
}
