package fence

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Names of the policies. Each has a binding of the same name.
const (
	// BindingsName refuses binds to a node that does not accept the pod's namespace.
	BindingsName = "reservation-fence-bindings"
	// PodsName refuses pods that are created on such a node, with spec.nodeName.
	PodsName = "reservation-fence-pods"
	// KeepOutName makes pods that tolerate the reserved taint keep off reserved nodes, so that the scheduler neither
	// tries those nodes again and again nor preempts a tenant's pod there.
	KeepOutName = "reservation-keep-out"
	// KeepOutCheckName refuses pods that tolerate the reserved taint and do not keep off reserved nodes.
	KeepOutCheckName = "reservation-keep-out-check"
)

// Settings say where the fences hold.
type Settings struct {
	// Namespace is the operator's namespace: the index lives there, and its pods pass.
	Namespace string
	// ExemptNamespaces pass too, besides kube-system and Namespace. Order and repetition do not matter.
	ExemptNamespaces []string
	// ExemptLabel is the key of a label; namespaces that bear it, with any value, pass. Empty: no label exempts.
	ExemptLabel string
	// KeepOut says that the API server serves MutatingAdmissionPolicy (see KeepOutServed). Where it does not, a pod
	// that would have been kept out is refused with the line to add.
	KeepOut bool
}

// Policies returns the fences of DESIGN.md, Admission, (a) to (c), as they are to be in the cluster: every field that
// the API server would default is set, so that a live object differs only if somebody changed it. All of them read the
// index. The order is the one to create them in: a policy before its binding, and what mutates before what checks.
func Policies(s Settings) []runtime.Object {
	objects := append(bindFence(s), podFence(s)...)
	if s.KeepOut {
		objects = append(objects, keepOut(s)...)
	}
	return append(objects, keepOutCheck(s)...)
}

// Exempt returns the namespaces in which no fence holds, by name, sorted: kube-system, so that a cluster can always
// come up, the operator's own, and those of the settings. The probe's namespace is never among them.
func (s Settings) Exempt() []string {
	names := append([]string{metav1.NamespaceSystem, s.Namespace}, s.ExemptNamespaces...)
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" || name == v1alpha1.ProbeNamespace })
	slices.Sort(names)
	return slices.Compact(names)
}

// matchConstraints match the rules in every namespace that is not exempt. It is here, and not in matchConditions, that
// namespaces are exempted: a missing index is an error before those are looked at, and would shut the cluster.
func (s Settings) matchConstraints(rules ...admissionregistrationv1.NamedRuleWithOperations) *admissionregistrationv1.MatchResources {
	selector := notIn(s.Exempt())
	if s.ExemptLabel != "" {
		selector.MatchExpressions = append(selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: s.ExemptLabel, Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	return matchResources(selector, rules...)
}

func matchResources(namespaces *metav1.LabelSelector, rules ...admissionregistrationv1.NamedRuleWithOperations) *admissionregistrationv1.MatchResources {
	equivalent := admissionregistrationv1.Equivalent
	return &admissionregistrationv1.MatchResources{
		NamespaceSelector: namespaces,
		ObjectSelector:    &metav1.LabelSelector{},
		MatchPolicy:       &equivalent,
		ResourceRules:     rules,
	}
}

// notIn selects all namespaces but the named ones, by the label that the API server itself sets on each.
func notIn(names []string) *metav1.LabelSelector {
	if len(names) == 0 {
		return &metav1.LabelSelector{}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: names,
	}}}
}

// rule is for resources of the core group.
func rule(operation admissionregistrationv1.OperationType, resources ...string) admissionregistrationv1.NamedRuleWithOperations {
	scope := admissionregistrationv1.AllScopes
	return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{operation},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{corev1.GroupName}, APIVersions: []string{"v1"}, Resources: resources, Scope: &scope,
		},
	}}
}

func validatingPolicy(name string, spec admissionregistrationv1.ValidatingAdmissionPolicySpec) *admissionregistrationv1.ValidatingAdmissionPolicy {
	fail := admissionregistrationv1.Fail
	spec.FailurePolicy = &fail
	return &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta(name), Spec: spec}
}

func validatingBinding(name string, spec admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta(name), Spec: spec}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": v1alpha1.FieldManager}}
}
