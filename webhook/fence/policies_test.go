package fence_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/webhook/fence"
)

func TestPoliciesStandInTheOrderToCreateThem(t *testing.T) {
	tests := map[string]struct {
		keepOut bool
		want    []string
	}{
		"with MutatingAdmissionPolicy": {true, []string{
			"ValidatingAdmissionPolicy reservation-fence-bindings", "ValidatingAdmissionPolicyBinding reservation-fence-bindings",
			"ValidatingAdmissionPolicy reservation-fence-pods", "ValidatingAdmissionPolicyBinding reservation-fence-pods",
			"MutatingAdmissionPolicy reservation-keep-out", "MutatingAdmissionPolicyBinding reservation-keep-out",
			"ValidatingAdmissionPolicy reservation-keep-out-check", "ValidatingAdmissionPolicyBinding reservation-keep-out-check",
		}},
		"without it": {false, []string{
			"ValidatingAdmissionPolicy reservation-fence-bindings", "ValidatingAdmissionPolicyBinding reservation-fence-bindings",
			"ValidatingAdmissionPolicy reservation-fence-pods", "ValidatingAdmissionPolicyBinding reservation-fence-pods",
			"ValidatingAdmissionPolicy reservation-keep-out-check", "ValidatingAdmissionPolicyBinding reservation-keep-out-check",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, object := range fence.Policies(fence.Settings{Namespace: "op", KeepOut: test.keepOut}) {
				kind := strings.TrimPrefix(strings.TrimPrefix(typeName(object), "*v1."), "v1.")
				got = append(got, kind+" "+object.(client.Object).GetName())
			}
			require.Empty(t, cmp.Diff(test.want, got))
		})
	}
}

func TestExemptNamespaces(t *testing.T) {
	tests := map[string]struct {
		settings fence.Settings
		want     []string
	}{
		"kube-system and the operator's always": {fence.Settings{Namespace: "op"}, []string{"kube-system", "op"}},
		"more by flag, sorted, once each": {
			fence.Settings{Namespace: "op", ExemptNamespaces: []string{"rook", "cilium", "rook", "", "kube-system"}},
			[]string{"cilium", "kube-system", "op", "rook"},
		},
		"never the probe's": {
			fence.Settings{Namespace: "op", ExemptNamespaces: []string{v1alpha1.ProbeNamespace}}, []string{"kube-system", "op"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, test.settings.Exempt())
			for _, constraints := range matchConstraints(fence.Policies(withKeepOut(test.settings))) {
				require.Empty(t, cmp.Diff([]metav1.LabelSelectorRequirement{{
					Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: test.want,
				}}, constraints.NamespaceSelector.MatchExpressions))
			}
		})
	}
}

func TestExemptLabelIsASecondSelector(t *testing.T) {
	for _, constraints := range matchConstraints(fence.Policies(fence.Settings{Namespace: "op", ExemptLabel: "example.com/system", KeepOut: true})) {
		require.Empty(t, cmp.Diff(metav1.LabelSelectorRequirement{
			Key: "example.com/system", Operator: metav1.LabelSelectorOpDoesNotExist,
		}, constraints.NamespaceSelector.MatchExpressions[1]))
	}
}

func TestEveryPolicyFailsClosed(t *testing.T) {
	for _, object := range fence.Policies(fence.Settings{Namespace: "op", KeepOut: true}) {
		switch object := object.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			require.Equal(t, admissionregistrationv1.Fail, *object.Spec.FailurePolicy, object.Name)
			for _, validation := range object.Spec.Validations {
				require.Equal(t, metav1.StatusReasonForbidden, *validation.Reason, object.Name)
				require.NotContains(t, validation.Message, "\n", object.Name)
				require.NotContains(t, validation.MessageExpression, "\n", object.Name)
			}
		case *admissionregistrationv1.MutatingAdmissionPolicy:
			require.Equal(t, admissionregistrationv1.Fail, *object.Spec.FailurePolicy, object.Name)
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			require.Equal(t, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, object.Spec.ValidationActions, object.Name)
			if ref := object.Spec.ParamRef; ref != nil {
				require.Equal(t, admissionregistrationv1.DenyAction, *ref.ParameterNotFoundAction, object.Name)
				require.Equal(t, "op/reservation-index", ref.Namespace+"/"+ref.Name)
			}
		}
	}
}

func TestPoliciesAreTheSameForAnyOrderOfInput(t *testing.T) {
	settings := fence.Settings{Namespace: "op", ExemptNamespaces: []string{"c", "a", "b"}, KeepOut: true}
	want := fence.Policies(settings)
	slices.Reverse(settings.ExemptNamespaces)
	require.Empty(t, cmp.Diff(want, fence.Policies(settings)))
}

func matchConstraints(objects []runtime.Object) []*admissionregistrationv1.MatchResources {
	var all []*admissionregistrationv1.MatchResources
	for _, object := range objects {
		switch object := object.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			all = append(all, object.Spec.MatchConstraints)
		case *admissionregistrationv1.MutatingAdmissionPolicy:
			all = append(all, object.Spec.MatchConstraints)
		}
	}
	return all
}

func withKeepOut(s fence.Settings) fence.Settings {
	s.KeepOut = true
	return s
}
