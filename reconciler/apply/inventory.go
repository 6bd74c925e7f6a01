package apply

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// Entry names an object in an inventory.
type Entry = v1alpha1.InventoryEntry

// MaxInventoryBytes is the most that an inventory may take in a status: well below etcd's 1.5 MiB, with room for the
// history beside it. It is about 6,000 objects with ordinary names.
const MaxInventoryBytes = 800 << 10

// EntryOf returns the entry of an object.
func EntryOf(o *unstructured.Unstructured) Entry {
	gvk := o.GroupVersionKind()
	return Entry{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// EntriesOf returns the inventory of a set: sorted, each object once, nil for none.
func EntriesOf(objects []render.Object) []Entry {
	var out []Entry
	for _, o := range objects {
		out = append(out, EntryOf(o.Unstructured))
	}
	return Union(out, nil)
}

// Digest returns the SHA-256 of a set of objects, each as it was written and in their order: "sha256:" and hexadecimal.
func Digest(objects []render.Object) string {
	sum := sha256.New()
	for _, o := range objects {
		// An object that came from YAML is made of what JSON can hold.
		_ = json.NewEncoder(sum).Encode(o.Object)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// Union returns what is in a or b, sorted, each object once whatever its version; of two versions that of b. It is
// nil if both are empty.
func Union(a, b []Entry) []Entry {
	byObject := make(map[Entry]Entry, len(a)+len(b))
	for _, entries := range [][]Entry{a, b} {
		for _, e := range entries {
			byObject[unversioned(e)] = e
		}
	}
	var out []Entry
	for _, e := range byObject {
		out = append(out, e)
	}
	slices.SortFunc(out, Compare)
	return out
}

// Difference returns what is in a and, in any version, not in b: sorted, each object once, nil for none.
func Difference(a, b []Entry) []Entry {
	gone := make(map[Entry]bool, len(b))
	for _, e := range b {
		gone[unversioned(e)] = true
	}
	var out []Entry
	for _, e := range Union(a, nil) {
		if !gone[unversioned(e)] {
			out = append(out, e)
		}
	}
	return out
}

// Compare orders entries by group, kind, namespace, name and version.
func Compare(a, b Entry) int {
	return cmp.Or(
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version),
	)
}

// Bytes returns how much an inventory takes in a status.
func Bytes(entries []Entry) int {
	data, _ := json.Marshal(entries) // strings alone: it cannot fail
	return len(data)
}

// order is that of writing: a namespace before what is in it, a Reservation before what binds to it. Deletions go
// the other way (DESIGN.md, Traps).
func order(kind string) int {
	switch kind {
	case "Namespace":
		return 0
	case "ResourceQuota", "LimitRange":
		return 1
	case "Reservation":
		return 2
	default:
		return 3
	}
}

// deletionOrder is what goes first when objects are pruned: bindings, so that no new pod is sent to nodes that are
// about to go; then Reservations; the namespaces last.
func deletionOrder(kind string) int {
	switch kind {
	case "ReservationBinding":
		return 0
	case "Reservation":
		return 1
	case "Namespace":
		return 3
	default:
		return 2
	}
}

func unversioned(e Entry) Entry {
	e.Version = ""
	return e
}

func groupVersionKind(e Entry) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
}
