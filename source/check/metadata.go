package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// prefix is that of every label and annotation of the operator.
const prefix = v1alpha1.Group + "/"

// serverFields are set by the API server; in a file they are left over from an export, and some of them make a write
// fail or conflict.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generateName", "generation",
	"managedFields", "resourceVersion", "selfLink", "uid",
}

func metadata(f *facts) []render.Finding {
	var out []render.Finding
	for _, o := range f.allowed {
		out = append(out, f.keys(o, "labels", o.GetLabels())...)
		out = append(out, f.keys(o, "annotations", o.GetAnnotations())...)
		meta, _ := o.Object["metadata"].(map[string]any)
		for _, field := range serverFields {
			// An export writes "creationTimestamp: null", which says nothing.
			if value, set := meta[field]; set && value != nil {
				out = append(out, at(o, "metadata."+field, "is set by the API server; leave it out"))
			}
		}
		if _, set := meta["ownerReferences"]; set {
			out = append(out, at(o, "metadata.ownerReferences", "what is in a commit has no owner in the cluster; leave it out"))
		}
		if _, set := meta["finalizers"]; set {
			out = append(out, at(o, "metadata.finalizers", "are set by controllers; leave them out"))
		}
		if status, set := o.Object["status"]; set && !isEmpty(status) {
			out = append(out, at(o, "status", "is written by controllers; leave it out"))
		}
	}
	return out
}

func isEmpty(v any) bool {
	m, isMap := v.(map[string]any)
	return v == nil || isMap && len(m) == 0
}

// keys looks at the labels or annotations of an object.
func (f *facts) keys(o render.Object, field string, values map[string]string) []render.Finding {
	var out []render.Finding
	for _, key := range slices.Sorted(maps.Keys(values)) {
		path := fmt.Sprintf("metadata.%s[%s]", field, key)
		switch {
		case field == "annotations" && key == v1alpha1.AnnotationReconcile:
			if values[key] != "disabled" {
				out = append(out, at(o, path, fmt.Sprintf("must be \"disabled\", not %q, or left out", values[key])))
			}
		case strings.HasPrefix(key, prefix):
			out = append(out, at(o, path, "is the operator's own; leave it out"))
		case field == "labels" && slices.Contains(f.ReservedLabels, key):
			out = append(out, at(o, path, "may not come from a tenants' repository; leave it out"))
		}
	}
	return out
}
