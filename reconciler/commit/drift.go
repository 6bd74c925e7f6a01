package commit

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// State is an object as it was when the operator last wrote or read it: enough to tell whether somebody changed it
// since, without comparing all of it.
type State struct {
	UID                 types.UID
	Generation          int64
	ResourceVersion     string
	Labels, Annotations map[string]string
	// Leaving says that the object was being deleted then.
	Leaving bool
}

// StateOf returns the state of an object. It shares its labels and annotations.
func StateOf(o metav1.Object) State {
	return State{
		UID: o.GetUID(), Generation: o.GetGeneration(), ResourceVersion: o.GetResourceVersion(),
		Labels: o.GetLabels(), Annotations: o.GetAnnotations(), Leaving: o.GetDeletionTimestamp() != nil,
	}
}

// newerThan reports whether the state is one that a cache, which holds o, has not seen yet.
func (s State) newerThan(o metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(s.ResourceVersion, o.GetResourceVersion())
	return err == nil && order > 0
}

// drifted reports whether an object, as a cache has it, was changed by somebody else since. What controllers write
// into a status is no drift; a cache that lags behind shows none.
func (s State) drifted(o metav1.Object) bool {
	if s.newerThan(o) {
		return false
	}
	return s.UID != o.GetUID() || s.Generation != o.GetGeneration() ||
		!maps.Equal(s.Labels, o.GetLabels()) || !maps.Equal(s.Annotations, o.GetAnnotations())
}

// Drifted reports whether any of the objects, as a cache has them, differs from its expected state, or any of the
// expected is among those that were seen to go. Objects that are not expected do not matter.
func Drifted[T metav1.Object](expected map[types.NamespacedName]State, live []T, gone map[types.UID]bool) bool {
	for _, s := range expected {
		if gone[s.UID] {
			return true
		}
	}
	for _, o := range live {
		s, known := expected[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}]
		if known && !s.Leaving && s.drifted(o) {
			return true
		}
	}
	return false
}

// owner returns the source that an object belongs to; empty for none.
func owner(o metav1.Object) string { return o.GetLabels()[v1alpha1.LabelSource] }
