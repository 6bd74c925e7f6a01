package apply

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// A server-side apply that takes the last item out of a set takes the set itself away, though the applied object has
// it, empty. For a Reservation that is the difference between "no node" and "every node of the pool". So its names
// are emptied by a patch of their own first; an empty set is then left alone. Nobody holds it then, so a commit that has
// no set any more takes it away by a patch, too.

var reservedNodes = []string{"spec", "reservedNodes"}

// emptied returns one of the live names of a Reservation that the commit leaves none of; empty for all other objects,
// and if somebody else set one of the names: it stays, and with it the set.
func emptied(object, live *unstructured.Unstructured) string {
	if live == nil || object.GetKind() != "Reservation" {
		return ""
	}
	names, said, err := unstructured.NestedStringSlice(object.Object, reservedNodes...)
	if err != nil || !said || len(names) > 0 {
		return ""
	}
	names, _, _ = unstructured.NestedStringSlice(live.Object, reservedNodes...)
	for _, fields := range foreignFields(live) {
		if slices.ContainsFunc(fields, func(field string) bool { return strings.HasPrefix(field, "spec.reservedNodes[") }) {
			return ""
		}
	}
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// outlived reports whether a Reservation, as it is after an apply, has an empty set of names that neither the commit nor
// anybody else says.
func outlived(object, then *unstructured.Unstructured) bool {
	if object.GetKind() != "Reservation" {
		return false
	}
	_, said, _ := unstructured.NestedFieldNoCopy(object.Object, reservedNodes...)
	names, lives, err := unstructured.NestedStringSlice(then.Object, reservedNodes...)
	if err != nil || said || !lives || len(names) > 0 {
		return false
	}
	path := fieldpath.MakePathOrDie("spec", "reservedNodes")
	return !slices.ContainsFunc(then.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return fieldsOf(e).Has(path) })
}

// dropEmpty takes an empty set of names away that outlived the apply of an object. Then is what the API server answered
// to that, and becomes what it answers now.
func (a *Applier) dropEmpty(ctx context.Context, object, then *unstructured.Unstructured) error {
	if !outlived(object, then) {
		return nil
	}
	return a.setNames(ctx, then, nil)
}

// tryApply is what server-side apply would answer. Names that are to be emptied are tried as a single one.
func (a *Applier) tryApply(ctx context.Context, object, live *unstructured.Unstructured) error {
	name := emptied(object, live)
	if name == "" {
		said := object.DeepCopy()
		if err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
			client.FieldOwner(v1alpha1.FieldManagerSource), client.DryRunAll); err != nil {
			return err
		}
		if outlived(said, object) {
			unstructured.RemoveNestedField(object.Object, reservedNodes...)
		}
		return nil
	}
	if err := unstructured.SetNestedStringSlice(object.Object, []string{name}, reservedNodes...); err != nil {
		return err
	}
	if err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(v1alpha1.FieldManagerSource), client.DryRunAll); err != nil {
		return err
	}
	return unstructured.SetNestedStringSlice(object.Object, []string{}, reservedNodes...)
}

// empty takes all names off a live Reservation that the commit leaves none of. A name that somebody added since the
// preview is a conflict, and the commit is looked at again.
func (a *Applier) empty(ctx context.Context, object, live *unstructured.Unstructured) error {
	if emptied(object, live) == "" {
		return nil
	}
	return a.setNames(ctx, live.DeepCopy(), []string{})
}

// setNames writes the names of a Reservation as it was read; nil is no list at all. The object becomes what the API server
// answers.
func (a *Applier) setNames(ctx context.Context, o *unstructured.Unstructured, names any) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.GetResourceVersion()},
		"spec":     map[string]any{"reservedNodes": names},
	})
	if err != nil {
		return err
	}
	return a.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldManagerSource))
}
