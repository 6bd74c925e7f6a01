package inject

import (
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

const tolerationsPath = "/spec/tolerations"

// addTolerations adds the tolerations of the bindings' taints that the pod does not have yet. It does so even for a
// Reservation that does not taint its nodes at the moment: tolerations of a running pod's template are not looked at
// again, and so turning spec.applyTaint on later does not strand the pods that are there.
func (p *pod) addTolerations(selected []Binding) Patch {
	has := slices.Clone(p.Spec.Tolerations)
	var missing []corev1.Toleration
	for _, b := range selected {
		covered := slices.ContainsFunc(has, func(t corev1.Toleration) bool { return covers(t, b.Tenant, b.Effect) })
		if !b.Toleration || covered {
			continue
		}
		t := corev1.Toleration{
			Key: v1alpha1.TaintKey, Operator: corev1.TolerationOpEqual, Value: b.Tenant, Effect: b.Effect,
		}
		has, missing = append(has, t), append(missing, t)
	}
	switch {
	case len(missing) == 0:
		return nil
	case p.Spec.Tolerations == nil: // missing or null: appending to it would fail
		return Patch{add(tolerationsPath, missing)}
	}
	var patch Patch
	for _, t := range missing {
		patch = append(patch, add(tolerationsPath+"/-", t))
	}
	return patch
}

// covers reports whether a toleration is as wide as the one that would be injected, or wider. One that is limited in
// time is not.
func covers(t corev1.Toleration, tenant string, effect corev1.TaintEffect) bool {
	if t.TolerationSeconds != nil || t.Effect != "" && t.Effect != effect {
		return false
	}
	switch t.Key {
	case "":
		return t.Operator == corev1.TolerationOpExists
	case v1alpha1.TaintKey:
		return t.Operator == corev1.TolerationOpExists || equals(t) && t.Value == tenant
	}
	return false
}

// toleratesReserved reports whether a toleration may match some reserved node's taint. The operator and the effect are
// not looked at: operators come that this program does not know, and a Reservation's effect can change.
func toleratesReserved(t corev1.Toleration) bool {
	return t.Key == "" || t.Key == v1alpha1.TaintKey
}

// equals reports whether the toleration's operator is Equal, which is the default.
func equals(t corev1.Toleration) bool {
	return t.Operator == corev1.TolerationOpEqual || t.Operator == ""
}

func add(path string, value any) jsonpatch.Operation {
	return jsonpatch.NewOperation("add", path, value)
}
