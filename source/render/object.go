package render

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is one rendered object with where it was written.
type Object struct {
	*unstructured.Unstructured
	// File is the slash path, from the repository's root, of the file the object
	// was written in; for one that kustomize made, its kustomization's.
	File string
	// Line is where its document begins in File, from 1; 0 if not known.
	Line int
}

// Finding is one thing wrong, or worth a warning, in a commit.
type Finding struct {
	// Warning findings do not reject the commit.
	Warning bool
	// File is the slash path from the repository's root.
	File string
	// Line counts from 1; 0 if not known.
	Line int
	// Kind, Namespace and Name are the object's, as far as they are known.
	Kind, Namespace, Name string
	// Field is the path of the field ("spec.tenant"), or "".
	Field string
	// Message says what is wrong and what to do.
	Message string
}

// Rejected says whether any of the findings is not a warning.
func Rejected(findings []Finding) bool {
	for _, f := range findings {
		if !f.Warning {
			return true
		}
	}
	return false
}
