package apply

import (
	"bytes"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// same reports whether an object, as a dry run would leave it, is what lives already: in all that a commit can say,
// and in the fields that are ours. A field that we come to own, alone or not, or give up, is a change although its value
// stays: the next commit that removes it depends on it.
func same(live, then *unstructured.Unstructured) bool {
	return reflect.DeepEqual(content(live), content(then)) && bytes.Equal(ownedFields(live), ownedFields(then))
}

// content returns the object without what the API server, controllers and the revision put there. It is a shallow
// copy as deep as needed.
func content(o *unstructured.Unstructured) map[string]any {
	out := make(map[string]any, len(o.Object))
	for key, value := range o.Object {
		if key != "status" && key != "metadata" {
			out[key] = value
		}
	}
	metadata := map[string]any{}
	fields, _ := o.Object["metadata"].(map[string]any)
	for key, value := range fields {
		switch key {
		case "managedFields", "resourceVersion", "generation", "annotations":
		default:
			metadata[key] = value
		}
	}
	annotations := o.GetAnnotations()
	delete(annotations, v1alpha1.AnnotationRevision) // GetAnnotations returns a copy
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	out["metadata"] = metadata
	return out
}

// ownedFields returns the fields of our field manager as the API server encodes them.
func ownedFields(o *unstructured.Unstructured) []byte {
	for _, entry := range o.GetManagedFields() {
		if entry.Manager == v1alpha1.FieldManagerSource && entry.Operation == "Apply" && entry.Subresource == "" && entry.FieldsV1 != nil {
			return entry.FieldsV1.GetRawBytes()
		}
	}
	return nil
}
