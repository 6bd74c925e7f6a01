package fence

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// The expressions of keep-out, in CEL. They are text and not variables of the policies, because matchConditions, which
// spare ordinary pods everything else, cannot use variables.
var (
	// aReservedTaint, of a toleration t: it could tolerate the reserved taint. Value, effect and operator do not count:
	// they decide only which tenant's taint it is, and an operator that does not exist yet must not slip through.
	aReservedTaint = fmt.Sprintf(`(!has(t.key) || t.key == "" || t.key == %q)`, v1alpha1.TaintKey)

	// A pod with more tolerations than anybody needs counts as one that tolerates all: to look at each would take the
	// API server time that grows with the square, 3 s for 20,000.
	tolerates = fmt.Sprintf(`object.spec.?tolerations.orValue([]).size() > %d || object.spec.?tolerations.orValue([]).exists(t, %s)`,
		maxTolerations, aReservedTaint)
	oldTolerates = `oldObject.spec.?tolerations.orValue([]).exists(t, ` + aReservedTaint + `)`
	// toleratesMore holds on an update that added such a toleration. The API server lets nobody remove one.
	toleratesMore = `object.spec.?tolerations.orValue([]).filter(t, ` + aReservedTaint + `).size() >
oldObject.spec.?tolerations.orValue([]).filter(t, ` + aReservedTaint + `).size()`

	// unassigned holds for a pod that a scheduler will place. The others are for the node fence alone: affinity means
	// nothing to them, and a kubelet's mirror of a static pod must stay as it is.
	unassigned = `object.spec.?nodeName.orValue("") == ""`

	terms = `object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])`
	// ofNothing, of a term t: it is empty and matches no node.
	ofNothing = `(t.?matchExpressions.orValue([]).size() == 0 && t.?matchFields.orValue([]).size() == 0)`
	// offReserved, of a term t: it demands a node without the tenant label.
	offReserved = requires("DoesNotExist")
	// keptOut holds if no term matches a reserved node. Terms are alternatives, so each must say it.
	keptOut = terms + `.size() > 0 && ` + terms + `.all(t, ` + ofNothing + ` || ` + offReserved + `)`
	// pinned holds if each term demands a reserved node or a free one by the tenant label.
	pinned = terms + `.size() > 0 && ` + terms + `.all(t, ` + ofNothing + ` || ` + offReserved + ` || ` + requires("In") + `)`

	// boundHere holds in a namespace with accepted bindings: the webhook sees its pods, and keeps out or injects as
	// each pod needs. The list is in the index, and not in a namespace selector, because a changed parameter is in
	// force at once and can be proven, where a changed policy is compiled a second or more later.
	boundHere = fmt.Sprintf(`params.?data[?%q].orValue("").contains("|" + request.namespace + "|")`, indexBound)

	requirement = fmt.Sprintf(`{"key": %q, "operator": "DoesNotExist"}`, v1alpha1.LabelTenant)
)

// maxTerms is how many terms a pod that tolerates the reserved taint may have. Adding to each takes the API server time
// that grows with the square: 0.1 s for 1,000, 1.7 s for 5,000.
const maxTerms = 500

// maxTolerations is how many tolerations are looked at.
const maxTolerations = 1000

// fewTerms holds up to there.
var fewTerms = fmt.Sprintf(`%s.size() <= %d`, terms, maxTerms)

// keepOutLine is what a person adds to a pod instead.
const keepOutLine = "{key: " + v1alpha1.LabelTenant + ", operator: DoesNotExist}"

func requires(operator string) string {
	return fmt.Sprintf(`t.?matchExpressions.orValue([]).exists(e, e.key == %q && e.operator == %q)`, v1alpha1.LabelTenant, operator)
}

// keepOut is (c) where it can mutate: reserved.tenant DoesNotExist is ANDed into every term that is not empty, or
// becomes the only term. It may run more than once on a pod, hence the condition that it is not there yet.
//
// It must not be deleted while the fences are to hold. The API server has one watch of ConfigMaps for all policies with
// such a parameter; if mutating policies were the first to want it, it ends with the last of them, and the validating
// ones are left with the index of that moment until the API server starts again (generic/policy_source.go of
// k8s.io/apiserver 0.37; seen). The probe finds that out.
func keepOut(s Settings) []runtime.Object {
	fail := admissionregistrationv1.Fail
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: meta(KeepOutName),
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			ParamKind:        indexKind(),
			MatchConstraints: s.matchConstraints(rule(admissionregistrationv1.Create, "pods")),
			MatchConditions: []admissionregistrationv1.MatchCondition{
				{Name: "tolerates-reserved-taint", Expression: tolerates},
				{Name: "unassigned", Expression: unassigned},
				{Name: "unbound-namespace", Expression: "!" + boundHere},
				{Name: "few-terms", Expression: fewTerms}, // keepOutCheck refuses the others
				{Name: "not-kept-out", Expression: "!(" + keptOut + ")"},
			},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeJSONPatch,
				JSONPatch: &admissionregistrationv1.JSONPatch{Expression: keepOutPatch()},
			}},
			FailurePolicy: &fail,
			// A later webhook may add a toleration or a term.
			ReinvocationPolicy: admissionregistrationv1.IfNeededReinvocationPolicy,
		},
	}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: meta(KeepOutName),
		Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: KeepOutName,
			ParamRef:   s.index(),
		},
	}
	return []runtime.Object{policy, binding}
}

// keepOutPatch makes the lowest part of the path that is missing, or adds to each term that lacks the requirement.
func keepOutPatch() string {
	const (
		affinity     = "/spec/affinity"
		nodeAffinity = affinity + "/nodeAffinity"
		required     = nodeAffinity + "/requiredDuringSchedulingIgnoredDuringExecution"
	)
	add := func(path, value string) string {
		return fmt.Sprintf(`JSONPatch{op: "add", path: %s, value: %s}`, path, value)
	}
	object := func(path, value string) string {
		return fmt.Sprintf("{%q: %s}", path[strings.LastIndex(path, "/")+1:], value)
	}

	requiredValue := `{"nodeSelectorTerms": [{"matchExpressions": [` + requirement + `]}]}`
	nodeAffinityValue := object(required, requiredValue)
	affinityValue := object(nodeAffinity, nodeAffinityValue)
	term := fmt.Sprintf("%q + string(i) + ", required+"/nodeSelectorTerms/")
	return `!has(object.spec.affinity) ? [` + add(quote(affinity), affinityValue) + `] :
!has(object.spec.affinity.nodeAffinity) ? [` + add(quote(nodeAffinity), nodeAffinityValue) + `] :
!has(object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution) ? [` + add(quote(required), requiredValue) + `] :
` + terms + `.transformList(i, t, !` + ofNothing + ` && !` + offReserved + `,
t.?matchExpressions.orValue([]).size() > 0 ?
` + add(term+`"/matchExpressions/-"`, requirement) + ` :
` + add(term+`"/matchExpressions"`, `[`+requirement+`]`) + `)`
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// keepOutCheck is (c) where it can only refuse, and what proves keepOut right where both are there. On creation it
// holds where keepOut does. On updates it holds in namespaces with accepted bindings too, for the webhook sees only
// creations: there a pod that could already tolerate its tenant's taint, and is pinned to it, may tolerate more.
func keepOutCheck(s Settings) []runtime.Object {
	forbidden := metav1.StatusReasonForbidden
	create, update := rule(admissionregistrationv1.Create, "pods"), rule(admissionregistrationv1.Update, "pods")
	policy := validatingPolicy(KeepOutCheckName, admissionregistrationv1.ValidatingAdmissionPolicySpec{
		ParamKind:        indexKind(),
		MatchConstraints: s.matchConstraints(create, update),
		MatchConditions:  []admissionregistrationv1.MatchCondition{{Name: "tolerates-reserved-taint", Expression: tolerates}},
		Validations: []admissionregistrationv1.Validation{
			{
				Expression: `request.operation != "CREATE" || !(` + unassigned + `) || ` + boundHere + ` || ` + fewTerms,
				Message: fmt.Sprintf("a pod that tolerates the taint %s may have no more than %d terms in its required node affinity",
					v1alpha1.TaintKey, maxTerms),
				Reason: &forbidden,
			},
			{
				Expression: `request.operation != "CREATE" || !(` + unassigned + `) || ` + boundHere + ` || ` + keptOut,
				Message: "a pod that tolerates the taint " + v1alpha1.TaintKey + " must keep off reserved nodes: add " + keepOutLine +
					" to the matchExpressions of every term in spec.affinity.nodeAffinity." +
					"requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms, or use a ReservationBinding",
				Reason: &forbidden,
			},
			{
				Expression: `request.operation != "UPDATE" || (` + keptOut + `) || !(` + toleratesMore + `) || ` +
					oldTolerates + ` && ` + pinned,
				Message: "a toleration of the taint " + v1alpha1.TaintKey + " cannot be added to this pod later: create the pod with it, or with " +
					keepOutLine + " in every term of its required node affinity",
				Reason: &forbidden,
			},
		},
	})
	return []runtime.Object{policy, validatingBinding(KeepOutCheckName, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: KeepOutCheckName, ParamRef: s.index(),
	})}
}
