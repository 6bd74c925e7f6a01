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
			"ValidatingAdmissionPolicyBinding reservation-keep-out-update",
		}},
		"without it": {false, []string{
			"ValidatingAdmissionPolicy reservation-fence-bindings", "ValidatingAdmissionPolicyBinding reservation-fence-bindings",
			"ValidatingAdmissionPolicy reservation-fence-pods", "ValidatingAdmissionPolicyBinding reservation-fence-pods",
			"ValidatingAdmissionPolicy reservation-keep-out-check", "ValidatingAdmissionPolicyBinding reservation-keep-out-check",
			"ValidatingAdmissionPolicyBinding reservation-keep-out-update",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, object := range fence.Policies(fence.Settings{Namespace: "op", KeepOut: test.keepOut}, nil) {
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
			for _, constraints := range matchConstraints(fence.Policies(withKeepOut(test.settings), nil)) {
				require.Empty(t, cmp.Diff([]metav1.LabelSelectorRequirement{{
					Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: test.want,
				}}, constraints.NamespaceSelector.MatchExpressions))
			}
		})
	}
}

func TestExemptLabelIsASecondSelector(t *testing.T) {
	for _, constraints := range matchConstraints(fence.Policies(fence.Settings{Namespace: "op", ExemptLabel: "example.com/system", KeepOut: true}, nil)) {
		require.Empty(t, cmp.Diff(metav1.LabelSelectorRequirement{
			Key: "example.com/system", Operator: metav1.LabelSelectorOpDoesNotExist,
		}, constraints.NamespaceSelector.MatchExpressions[1]))
	}
}

func TestEveryPolicyFailsClosed(t *testing.T) {
	for _, object := range fence.Policies(fence.Settings{Namespace: "op", KeepOut: true}, nil) {
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

func TestBoundNamespacesLeaveKeepOutButNotTheRest(t *testing.T) {
	objects := fence.Policies(fence.Settings{Namespace: "op", KeepOut: true}, []string{"tenant-b", "tenant-a", "tenant-b"})
	var excluding []string
	for _, object := range objects {
		var resources *admissionregistrationv1.MatchResources
		switch object := object.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			resources = object.Spec.MatchResources
		case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
			resources = object.Spec.MatchResources
		}
		if resources == nil || len(resources.NamespaceSelector.MatchExpressions) == 0 {
			continue
		}
		require.Equal(t, []string{"tenant-a", "tenant-b"}, resources.NamespaceSelector.MatchExpressions[0].Values)
		excluding = append(excluding, object.(client.Object).GetName())
	}
	require.Equal(t, []string{fence.KeepOutName, fence.KeepOutCheckName}, excluding)
}

func TestPoliciesAreTheSameForAnyOrderOfInput(t *testing.T) {
	settings := fence.Settings{Namespace: "op", ExemptNamespaces: []string{"c", "a", "b"}, KeepOut: true}
	bound := []string{"z", "x", "y"}
	want := fence.Policies(settings, bound)
	require.Equal(t, []string{"z", "x", "y"}, bound, "the argument is not sorted in place")

	slices.Reverse(bound)
	slices.Reverse(settings.ExemptNamespaces)
	require.Empty(t, cmp.Diff(want, fence.Policies(settings, bound)))
}

func TestOnlyTheBindingsOfKeepOutDependOnBoundNamespaces(t *testing.T) {
	settings := fence.Settings{Namespace: "op", KeepOut: true}
	none, some := fence.Policies(settings, nil), fence.Policies(settings, []string{"tenant-a"})
	var changed []string
	for i := range none {
		if cmp.Diff(none[i], some[i]) != "" {
			changed = append(changed, typeName(none[i]))
		}
	}
	// A changed policy would be compiled anew by every API server.
	require.Equal(t, []string{"*v1.MutatingAdmissionPolicyBinding", "*v1.ValidatingAdmissionPolicyBinding"}, changed)
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
