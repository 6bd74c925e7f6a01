package fence

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// The keys of the index that the fences read; reconciler/allocate writes them.
const (
	indexNodes   = "nodes"
	indexBound   = "bound"
	indexVersion = "version"
)

// bindFence is (a): a pod's namespace must be accepted by the node that it is bound to, whoever binds it. Both ways to
// bind are covered, pods/binding and the old resource bindings.
func bindFence(s Settings) []runtime.Object {
	return nodeFence(s, BindingsName, rule(admissionregistrationv1.Create, "pods/binding", "bindings"),
		`object.?target.?name.orValue("")`, "use a ReservationBinding, or leave the choice to the scheduler")
}

// podFence is (b): the same for pods that are created with spec.nodeName, which no scheduler binds.
func podFence(s Settings) []runtime.Object {
	return nodeFence(s, PodsName, rule(admissionregistrationv1.Create, "pods"),
		`object.spec.?nodeName.orValue("")`, "remove spec.nodeName or use a ReservationBinding")
}

// nodeFence refuses a request for a node that is in the index without the request's namespace. node is the expression
// that finds the node's name, empty for none; advice says what to do.
func nodeFence(s Settings, name string, resources admissionregistrationv1.NamedRuleWithOperations, node, advice string) []runtime.Object {
	forbidden := metav1.StatusReasonForbidden
	policy := validatingPolicy(name, admissionregistrationv1.ValidatingAdmissionPolicySpec{
		ParamKind:        indexKind(),
		MatchConstraints: s.matchConstraints(resources),
		Variables: []admissionregistrationv1.Variable{
			{Name: "node", Expression: node},
			{Name: "nodes", Expression: fmt.Sprintf(`params.?data[?%q].orValue("")`, indexNodes)},
			{Name: "version", Expression: fmt.Sprintf(`params.?data[?%q].orValue("unknown")`, indexVersion)},
		},
		Validations: []admissionregistrationv1.Validation{
			{
				// The index always lists the probe's node, so an empty one was not written by the operator.
				Expression: `variables.node == "" || variables.nodes != ""`,
				Message:    "the reservation index is damaged, so no node can be shown to be free; tell the platform team",
				Reason:     &forbidden,
			},
			{
				// "Contains" is said by splitting in two, because the cost that is charged for contains() grows with
				// the product of both lengths: in an index of 1 MiB it would pass the limit of 1,000,000 at a name of
				// 90 characters, and every bind of such a pod would fail. Splitting costs 210,000, whatever the name.
				Expression: `variables.node == "" ||
variables.nodes.split("|" + variables.node + " ", 2).size() == 1 ||
variables.nodes.split("|" + variables.node + " " + request.namespace + "|", 2).size() == 2`,
				Message: "the node is reserved and does not accept pods of this namespace; " + advice,
				MessageExpression: fmt.Sprintf(`"node " + variables.node + " is reserved and does not accept pods of namespace " + `+
					`request.namespace + %q + variables.version + ")"`, "; "+advice+" (reservation index "),
				Reason: &forbidden,
			},
		},
	})
	binding := validatingBinding(name, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ParamRef: s.index(),
	})
	return []runtime.Object{policy, binding}
}

func indexKind() *admissionregistrationv1.ParamKind {
	return &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
}

// index is the parameter of every fence. Without it nothing is let in, for then nobody knows what is free.
func (s Settings) index() *admissionregistrationv1.ParamRef {
	deny := admissionregistrationv1.DenyAction
	return &admissionregistrationv1.ParamRef{Namespace: s.Namespace, Name: v1alpha1.IndexName, ParameterNotFoundAction: &deny}
}
