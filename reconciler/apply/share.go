package apply

import (
	"bytes"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// A server-side apply that drops a field removes it only if nobody else holds it. Whoever wrote an object by hand before
// it came under Git (kubectl create, apply or edit) holds each of its fields for ever after, so the commit that takes a
// node out would free nothing. What a commit says is therefore Git's alone, as kubectl apply --server-side takes over
// from kubectl apply. Neither a value is changed by it nor a field that the commit does not have; other appliers, which
// say again and again what they hold, keep their share.

// handedOver returns managed fields with some fields taken from those who wrote the object by hand. It reports false,
// and the managed fields are as they were, if they hold none of them.
func handedOver(entries []metav1.ManagedFieldsEntry, ours *fieldpath.Set) ([]metav1.ManagedFieldsEntry, bool) {
	left, changed := make([]metav1.ManagedFieldsEntry, 0, len(entries)), false
	for _, e := range entries {
		set := fieldsOf(e)
		rest := without(set, ours)
		if e.Operation != metav1.ManagedFieldsOperationUpdate || e.Manager == v1alpha1.FieldManagerSource || rest.Equals(set) {
			left = append(left, e)
			continue
		}
		changed = true
		if rest.Empty() {
			continue
		}
		fields, err := rest.ToJSON()
		if err != nil {
			return entries, false
		}
		e.FieldsV1 = &metav1.FieldsV1{}
		e.FieldsV1.SetRawBytes(fields)
		left = append(left, e)
	}
	return left, changed
}

// without returns the fields of a set that are not in another one, nor hold a field of it: who made a list by hand holds
// the list itself besides its items, and would keep an empty one.
func without(set, other *fieldpath.Set) *fieldpath.Set {
	rest := fieldpath.NewSet()
	for path := range set.Difference(other).All() {
		inside := other
		for _, element := range path {
			inside = inside.WithPrefix(element)
		}
		if inside.Empty() {
			rest.Insert(path.Copy())
		}
	}
	return rest
}

// heldBy returns the fields that a manager holds.
func heldBy(entries []metav1.ManagedFieldsEntry, manager string) *fieldpath.Set {
	all := fieldpath.NewSet()
	for _, e := range entries {
		if e.Manager == manager {
			all = all.Union(fieldsOf(e))
		}
	}
	return all
}

// fieldsOf returns the fields of an entry; none if they are those of a subresource.
func fieldsOf(e metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := fieldpath.NewSet()
	if e.FieldsV1 == nil || e.Subresource != "" || set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())) != nil {
		return fieldpath.NewSet()
	}
	return set
}

// SaidNodes returns the names in spec.reservedNodes of a live Reservation that a commit put there, in any order: those
// that the source's field manager holds.
func SaidNodes(o *unstructured.Unstructured) []string {
	var names []string
	for path := range heldBy(o.GetManagedFields(), v1alpha1.FieldManagerSource).Leaves().All() {
		if len(path) == 3 && path[2].Value != nil && path[:2].Equals(fieldpath.MakePathOrDie("spec", "reservedNodes")) {
			names = append(names, (*path[2].Value).AsString())
		}
	}
	return names
}

// Finish makes up for a take-over that an interrupted apply of the source's left undone, before the next commit is tried:
// what that one drops would stay for ever, and what it changes would be a conflict. The object, one that the source owns,
// becomes what the API server answers. One that is being deleted or is left alone on somebody's word stays as it is.
func (a *Applier) Finish(ctx context.Context, o *unstructured.Unstructured) error {
	if o.GetDeletionTimestamp() != nil || o.GetAnnotations()[v1alpha1.AnnotationReconcile] == "disabled" {
		return nil
	}
	return a.takeOver(ctx, o)
}

// takeOver makes the source the only one by hand who holds what it said of an object. The object becomes what the API
// server answers. Whoever writes the object at the same time makes it start again, a few times.
func (a *Applier) takeOver(ctx context.Context, o *unstructured.Unstructured) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		fields, changed := handedOver(o.GetManagedFields(), heldBy(o.GetManagedFields(), v1alpha1.FieldManagerSource))
		if !changed {
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": o.GetResourceVersion(), "managedFields": fields,
		}})
		if err != nil {
			return fmt.Errorf("encoding managed fields: %w", err)
		}
		err = a.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldManagerSource))
		if apierrors.IsConflict(err) {
			if getErr := a.Live.Get(ctx, client.ObjectKeyFromObject(o), o); getErr != nil {
				return getErr
			}
		}
		return err
	})
}
