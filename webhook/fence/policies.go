package fence

import "k8s.io/apimachinery/pkg/runtime"

// Settings say where the fences hold.
type Settings struct {
	// Namespace is the operator's namespace: the index lives there, and its pods pass.
	Namespace string
	// ExemptNamespaces pass too, besides kube-system and Namespace. Order and repetition do not matter.
	ExemptNamespaces []string
	// ExemptLabel is the key of a label; namespaces that bear it, with any value, pass. Empty: no label exempts.
	ExemptLabel string
	// KeepOut says that the API server serves MutatingAdmissionPolicy (see KeepOutServed).
	KeepOut bool
}

// Policies returns the fences, each policy before its bindings.
func Policies(s Settings, bound []string) []runtime.Object { return nil }
