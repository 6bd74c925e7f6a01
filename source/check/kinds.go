package check

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// kind is a kind that a commit may hold.
type kind struct {
	version    string
	namespaced bool
}

// allowed are all kinds that a commit may hold (DESIGN.md, A commit, stage by stage).
var allowed = map[schema.GroupKind]kind{
	{Group: v1alpha1.Group, Kind: "Reservation"}:        {version: "v1alpha1"},
	{Group: v1alpha1.Group, Kind: "ReservationBinding"}: {version: "v1alpha1", namespaced: true},
	{Kind: "Namespace"}:                                 {version: "v1"},
	{Kind: "ResourceQuota"}:                             {version: "v1", namespaced: true},
	{Kind: "LimitRange"}:                                {version: "v1", namespaced: true},
}

func kindOf(o render.Object) (kind, bool) {
	k, ok := allowed[o.GroupVersionKind().GroupKind()]
	return k, ok
}

func emptySet(f *facts) []render.Finding {
	if len(f.Objects) > 0 || f.AllowEmpty {
		return nil
	}
	path := f.Path
	if path == "" {
		path = "."
	}
	return []render.Finding{{File: path, Message: "the commit contains no objects, so that it would release every node: " +
		"check spec.path, or set spec.allowEmpty if this is meant"}}
}

func kinds(f *facts) []render.Finding {
	var out []render.Finding
	for _, o := range f.Objects {
		gvk := o.GroupVersionKind()
		k, ok := kindOf(o)
		switch {
		case !ok:
			out = append(out, at(o, "kind", fmt.Sprintf("%s (%s) may not be in a tenants' repository; "+
				"Reservation, ReservationBinding, Namespace, ResourceQuota and LimitRange may", gvk.Kind, o.GetAPIVersion())))
		case k.version != gvk.Version:
			want := schema.GroupVersion{Group: gvk.Group, Version: k.version}
			out = append(out, at(o, "apiVersion", fmt.Sprintf("version %q of %s is not known; write %s", gvk.Version, gvk.Kind, want)))
		}
	}
	return out
}

func names(f *facts) []render.Finding {
	var out []render.Finding
	for _, o := range f.allowed {
		valid := validation.IsDNS1123Subdomain
		if o.GetKind() == "Namespace" {
			valid = validation.IsDNS1123Label
		}
		switch name := o.GetName(); {
		case name == "":
			out = append(out, at(o, "metadata.name", "is required; a commit names every object"))
		default:
			for _, problem := range valid(name) {
				out = append(out, at(o, "metadata.name", problem))
			}
		}
	}
	return out
}

func scopes(f *facts) []render.Finding {
	var out []render.Finding
	for _, o := range f.allowed {
		k, _ := kindOf(o)
		namespace := o.GetNamespace()
		switch {
		case k.namespaced && namespace == "":
			out = append(out, at(o, "metadata.namespace", fmt.Sprintf("is required for a %s", o.GetKind())))
		case !k.namespaced && namespace != "":
			out = append(out, at(o, "metadata.namespace", fmt.Sprintf("a %s is in no namespace; leave it out "+
				"(a kustomization's namespace: sets it on every kind)", o.GetKind())))
		case k.namespaced:
			for _, problem := range validation.IsDNS1123Label(namespace) {
				out = append(out, at(o, "metadata.namespace", problem))
			}
		}
	}
	return out
}

func reservedNamespaces(f *facts) []render.Finding {
	var out []render.Finding
	for _, o := range f.allowed {
		field, namespace := "metadata.namespace", o.GetNamespace()
		if o.GetKind() == "Namespace" {
			field, namespace = "metadata.name", o.GetName()
		}
		if f.reserves(namespace) {
			out = append(out, at(o, field, fmt.Sprintf("the namespace %s is not a tenant's; nothing in it comes from a tenants' repository", namespace)))
		}
	}
	return out
}

// reserves reports whether a namespace belongs to the cluster or to the operator.
func (f *facts) reserves(namespace string) bool {
	operator := f.OperatorNamespace
	if operator == "" {
		operator = v1alpha1.OperatorNamespace
	}
	return namespace == operator || namespace == v1alpha1.ProbeNamespace || strings.HasPrefix(namespace, "kube-") ||
		slices.Contains(f.ReservedNamespaces, namespace)
}

func duplicates(f *facts) []render.Finding {
	var out []render.Finding
	first := map[Key]render.Object{}
	for _, o := range f.Objects {
		key := KeyOf(o)
		if key.Name == "" {
			continue // said by another rule, and not the same object
		}
		if before, twice := first[key]; twice {
			out = append(out, at(o, "metadata.name", fmt.Sprintf("is in the commit twice, here and in %s; remove one", where(before))))
		} else {
			first[key] = o
		}
	}
	return out
}

// where names the place of an object in the repository.
func where(o render.Object) string {
	if o.Line > 0 {
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	}
	return o.File
}
