package inject

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

const (
	affinityPath     = "/spec/affinity"
	nodeAffinityPath = affinityPath + "/nodeAffinity"
	requiredPath     = nodeAffinityPath + "/requiredDuringSchedulingIgnoredDuringExecution"
	termsPath        = requiredPath + "/nodeSelectorTerms"
)

// unreserved demands a node that is reserved for nobody.
var unreserved = corev1.NodeSelectorRequirement{
	Key: v1alpha1.LabelTenant, Operator: corev1.NodeSelectorOpDoesNotExist,
}

// tenantNode demands a node that is reserved for the tenant.
func tenantNode(tenant string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{
		Key: v1alpha1.LabelTenant, Operator: corev1.NodeSelectorOpIn, Values: []string{tenant},
	}
}

// confine makes the pod demand a node that meets one of the alternatives, in addition to all that it demands already.
// Terms are ORed and what is in them is ANDed, so the first alternative is ANDed into every term, and for each further
// one a copy of the term is added that has it instead. Terms that have one of them already stay as they are, and so
// do empty ones, which match no node.
func (p *pod) confine(alternatives ...corev1.NodeSelectorRequirement) (Patch, error) {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil || p.Spec.Affinity.NodeAffinity.Required == nil {
		return p.require(alternatives), nil
	}
	// No terms at all stay none: the API server refuses that, and one would let the pod run.
	var patch, copies Patch
	for i, t := range p.terms() {
		if t.empty() || slices.ContainsFunc(alternatives, t.demands) {
			continue
		}
		path := fmt.Sprintf("%s/%d/matchExpressions", termsPath, i)
		if len(t.MatchExpressions) == 0 {
			patch = append(patch, add(path, alternatives[:1]))
		} else {
			patch = append(patch, add(path+"/-", alternatives[0]))
		}
		for _, a := range alternatives[1:] {
			another, err := t.with(a)
			if err != nil {
				return nil, err
			}
			copies = append(copies, add(termsPath+"/-", another))
		}
	}
	return append(patch, copies...), nil
}

// require adds the required node affinity, a term for each alternative, by one add of what is missing.
func (p *pod) require(alternatives []corev1.NodeSelectorRequirement) Patch {
	required := &corev1.NodeSelector{}
	for _, a := range alternatives {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{a},
		})
	}
	nodeAffinity := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
	switch {
	case p.Spec.Affinity == nil:
		return Patch{add(affinityPath, corev1.Affinity{NodeAffinity: nodeAffinity})}
	case p.Spec.Affinity.NodeAffinity == nil:
		return Patch{add(nodeAffinityPath, nodeAffinity)}
	}
	return Patch{add(requiredPath, required)}
}

// demands reports whether the term has a requirement that is at least as strict as r, one of those above.
func (t term) demands(r corev1.NodeSelectorRequirement) bool {
	return slices.ContainsFunc(t.MatchExpressions, func(has corev1.NodeSelectorRequirement) bool {
		if has.Key != r.Key || has.Operator != r.Operator {
			return false
		}
		other := func(v string) bool { return !slices.Contains(r.Values, v) }
		return r.Operator != corev1.NodeSelectorOpIn || len(has.Values) > 0 && !slices.ContainsFunc(has.Values, other)
	})
}

// contradiction returns the field of a demand that leaves the pod no node of the tenant, and what it says there; two
// empty strings if there is none.
func (p *pod) contradiction(tenant string) (field, why string) {
	if has, ok := p.Spec.NodeSelector[v1alpha1.LabelTenant]; ok && has != tenant {
		return fmt.Sprintf("spec.nodeSelector[%s]", v1alpha1.LabelTenant), fmt.Sprintf("demands tenant %q", has)
	}
	for i, t := range p.terms() {
		if t.empty() {
			continue
		}
		j := slices.IndexFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == v1alpha1.LabelTenant && excludes(r, tenant)
		})
		if j < 0 {
			return "", "" // through this term the pod can have a node
		}
		if field == "" {
			r := t.MatchExpressions[j]
			field = fmt.Sprintf("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."+
				"nodeSelectorTerms[%d].matchExpressions[%d]", i, j)
			why = fmt.Sprintf("demands %s", strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, listed(r.Values))))
		}
	}
	return field, why
}

// listed writes values as a list, of which it keeps the first few; none are nothing.
func listed(values []string) string {
	const most = 3
	switch {
	case len(values) == 0:
		return ""
	case len(values) > most:
		return fmt.Sprintf("[%s, … %d in all]", strings.Join(values[:most], ", "), len(values))
	}
	return fmt.Sprintf("[%s]", strings.Join(values, ", "))
}

// excludes reports whether a requirement on the tenant label rules the tenant's nodes out.
func excludes(r corev1.NodeSelectorRequirement, tenant string) bool {
	named := slices.Contains(r.Values, tenant)
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return !named
	case corev1.NodeSelectorOpNotIn:
		return named
	case corev1.NodeSelectorOpDoesNotExist:
		return true
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		return true // they compare integers, and a tenant's name is none
	}
	return false
}
