package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// pod is the part of a pod that injection looks at. A pointer or slice is nil where the JSON has null or nothing: there
// an add of that parent cannot overwrite anything. Where it is not nil, only children that are missing are added, so
// that whatever else the JSON holds beside them stays.
type pod struct {
	Metadata struct {
		Labels          map[string]string       `json:"labels"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec *struct {
		NodeSelector map[string]string   `json:"nodeSelector"`
		Tolerations  []corev1.Toleration `json:"tolerations"`
		Affinity     *struct {
			NodeAffinity *struct {
				Required *struct {
					Terms []term `json:"nodeSelectorTerms"`
				} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
			} `json:"nodeAffinity"`
		} `json:"affinity"`
	} `json:"spec"`
}

// decode reads a pod's JSON. Keys are case-sensitive, as they are to a JSON patch.
func decode(raw []byte) (*pod, error) {
	p := &pod{}
	if err := utiljson.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("decoding the pod: %w", err)
	}
	if p.Spec == nil {
		return nil, errors.New("decoding the pod: it has no spec")
	}
	return p, nil
}

// terms returns the terms of the required node affinity.
func (p *pod) terms() []term {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil || p.Spec.Affinity.NodeAffinity.Required == nil {
		return nil
	}
	return p.Spec.Affinity.NodeAffinity.Required.Terms
}

// ofDaemonSet reports whether the DaemonSet controller made the pod for one node. The owner alone is not believed,
// since anybody can write one: the pod must be pinned to a node as that controller does it, and one that is pinned by
// hand gains nothing that the taint and the fences do not stop.
func (p *pod) ofDaemonSet() bool {
	owned := slices.ContainsFunc(p.Metadata.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.APIVersion == "apps/v1" && o.Kind == "DaemonSet" && o.Controller != nil && *o.Controller
	})
	terms := p.terms()
	return owned && len(terms) > 0 && !slices.ContainsFunc(terms, func(t term) bool { return !t.pinned() })
}

// term is a node selector term, as this program knows it and as it was written.
type term struct {
	corev1.NodeSelectorTerm
	raw json.RawMessage
}

// UnmarshalJSON keeps the term's JSON beside what this program knows of it.
func (t *term) UnmarshalJSON(raw []byte) error {
	t.raw = slices.Clone(raw)
	return utiljson.Unmarshal(raw, &t.NodeSelectorTerm)
}

// empty reports whether the term matches no node (Kubernetes, v1.NodeSelectorTerm). A requirement added to it would
// make it match some, and so let the pod run where it could not.
func (t term) empty() bool { return len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0 }

// pinned reports whether the term matches one node, by its name.
func (t term) pinned() bool {
	return slices.ContainsFunc(t.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == metav1.ObjectNameField && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1
	})
}

// with returns a copy of the term, unknown fields included, that demands r as well.
func (t term) with(r corev1.NodeSelectorRequirement) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(t.raw, &fields); err != nil {
		return nil, fmt.Errorf("decoding a node selector term: %w", err)
	}
	var expressions []json.RawMessage
	if known, ok := fields["matchExpressions"]; ok {
		if err := json.Unmarshal(known, &expressions); err != nil {
			return nil, fmt.Errorf("decoding matchExpressions: %w", err)
		}
	}
	one, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	fields["matchExpressions"], err = json.Marshal(append(expressions, one))
	return fields, err
}
