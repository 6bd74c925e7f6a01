package check

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// Key names an object whatever the version it is written in. Two objects with one Key are one object.
type Key struct {
	Group, Kind, Namespace, Name string
}

// KeyOf returns the Key of a rendered object.
func KeyOf(o render.Object) Key {
	gvk := o.GroupVersionKind()
	return Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Set is a whole commit, and the facts it is checked against.
type Set struct {
	// Source is the name of the ReservationSource; empty without a cluster.
	Source string
	// Path is the rendered folder; the finding about an empty set names it.
	Path string
	// Objects are all that the commit renders to, in the order of their files.
	Objects []render.Object
	// AllowEmpty accepts a set without an object.
	AllowEmpty bool
	// OperatorNamespace is the operator's own; empty means v1alpha1.OperatorNamespace. No object may be in it.
	OperatorNamespace string
	// ReservedNamespaces are further namespaces that no object may be in, such as those that the fences exempt.
	ReservedNamespaces []string
	// ReservedLabels are label keys that no object may bear, such as the one that exempts a namespace from the fences.
	ReservedLabels []string
	// Accept decides whether a binding counts; reservation is not nil. Nil: the Reservation must accept its namespace.
	Accept func(binding *v1alpha1.ReservationBinding, reservation *v1alpha1.Reservation) (ok bool, reason, message string)
	// Live is what the cluster holds.
	Live Live
}

// Live is what a check needs to know of the cluster. A nil field is not known, and the rules that need it are silent.
type Live struct {
	// Reservations are those that will exist beside the set: neither in it nor about to be pruned by its source.
	Reservations []v1alpha1.Reservation
	// Owners holds, for each object of the set that exists, the value of its label LabelSource; empty for one that
	// no source owns.
	Owners map[Key]string
	// Namespaces holds each namespace that exists, of those that the set mentions (see Mentioned), with the value of
	// its label LabelSource.
	Namespaces map[string]string
	// Nodes holds the labels of all nodes, by name.
	Nodes map[string]map[string]string
	// Holders says which Reservation holds a node now, or has not released it yet, by node.
	Holders map[string]string
	// Before holds the Reservations that exist, as they live, by name: of two that claim one node the older has it.
	Before map[string]*v1alpha1.Reservation
	// Said holds the nodes that Git named for a Reservation before this commit, by Reservation. What came to stand in
	// their way since is not the commit's fault.
	Said map[string][]string
}

// A rule looks at the whole set and returns what is wrong, in any order.
type rule struct {
	name string // what it is about, for its test
	find func(*facts) []render.Finding
}

// rules are independent of each other: each reports all it sees, and none hides another's finding. The exception is
// kinds: nothing more is said about an object that may not be in a commit at all.
var rules = []rule{
	{"something is left to apply", emptySet},
	{"only kinds that concern tenants' capacity", kinds},
	{"names that the API server can store", names},
	{"namespaced kinds have a namespace, others have none", scopes},
	{"nothing in the system's and the operator's own namespaces", reservedNamespaces},
	{"nothing that others own in the metadata", metadata},
	{"one object, one document", duplicates},
	{"our kinds have only fields that exist, of the right type", schemas},
	{"one node, one line", repeated},
	{"one node, one Reservation", claims},
	{"no node out of another's pool", held},
	{"a pool is less than the cluster", wholeCluster},
	{"named nodes exist", missingNodes},
	{"one object, one source", owners},
	{"namespaces exist", namespaces},
	{"accepted namespaces are under this source's control", foreignNamespaces},
	{"bindings have a right to their Reservation", bindings},
}

// Check returns everything that is wrong with a set, and what is worth a warning, sorted by file, line, object and
// field; nil if there is nothing to say. The same set in another order gives the same findings. It changes nothing.
//
// It does not know what the API server knows: limits, CEL rules and admission are for a dry run to ask.
func Check(s Set) []render.Finding {
	f := gather(s)
	var out []render.Finding
	for _, r := range rules {
		out = append(out, r.find(f)...)
	}
	Sort(out)
	return slices.Compact(out)
}

// Storable returns those objects of a set that have a kind, a version, a name and a namespace that the API server could
// store, in the order of the set: the only ones worth asking it about.
func Storable(objects []render.Object) []render.Object {
	f := gather(Set{Objects: objects})
	bad := map[Key]bool{}
	for _, find := range []func(*facts) []render.Finding{names, scopes} {
		for _, finding := range find(f) {
			bad[Key{Kind: finding.Kind, Namespace: finding.Namespace, Name: finding.Name}] = true
		}
	}
	var out []render.Object
	for _, o := range f.allowed {
		if !bad[Key{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}] {
			out = append(out, o)
		}
	}
	return out
}

// Mentioned returns the namespaces that a set needs and does not make, sorted: those its objects are in, and those
// that its Reservations accept.
func Mentioned(objects []render.Object) []string {
	f := gather(Set{Objects: objects})
	mentioned := map[string]bool{}
	for _, o := range f.allowed {
		mentioned[o.GetNamespace()] = true
	}
	for _, r := range f.reservations {
		for _, namespace := range r.value.AcceptedNamespaces() {
			mentioned[namespace] = true
		}
	}
	var out []string
	for _, namespace := range slices.Sorted(maps.Keys(mentioned)) {
		if !f.namespaces[namespace] && len(validation.IsDNS1123Label(namespace)) == 0 {
			out = append(out, namespace)
		}
	}
	return out
}

// Sort puts findings into the order that Check returns them in.
func Sort(findings []render.Finding) {
	slices.SortFunc(findings, func(a, b render.Finding) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Message, b.Message),
		)
	})
}

// Reservations returns the set's Reservations as far as they can be read, in the order of the set.
func Reservations(objects []render.Object) []v1alpha1.Reservation {
	f := gather(Set{Objects: objects})
	out := make([]v1alpha1.Reservation, 0, len(f.reservations))
	for _, r := range f.reservations {
		out = append(out, *r.value)
	}
	return out
}

// facts is a Set, read once.
type facts struct {
	Set
	// allowed are the objects of the kinds that a commit may hold.
	allowed []render.Object
	// reservations and bindings are those that can be read into their types, mistakes in single fields left out.
	reservations []located[*v1alpha1.Reservation]
	bindings     []located[*v1alpha1.ReservationBinding]
	// unreadable are the findings of the reading.
	unreadable []render.Finding
	// namespaces are the names of the set's Namespaces.
	namespaces map[string]bool
	// byName holds the set's Reservations; of two with one name the first.
	byName map[string]located[*v1alpha1.Reservation]
	// liveByName holds the live Reservations.
	liveByName map[string]*v1alpha1.Reservation
}

// located is a typed object with where it was written.
type located[T any] struct {
	value  T
	object render.Object
	// readable: all of the object is in the value.
	readable bool
}

func gather(s Set) *facts {
	f := &facts{
		Set:        s,
		namespaces: map[string]bool{},
		byName:     map[string]located[*v1alpha1.Reservation]{},
		liveByName: map[string]*v1alpha1.Reservation{},
	}
	f.Objects = sorted(s.Objects)
	for _, o := range f.Objects {
		if k, ok := kindOf(o); !ok || k.version != o.GroupVersionKind().Version {
			continue
		}
		f.allowed = append(f.allowed, o)
		switch o.GetKind() {
		case "Namespace":
			f.namespaces[o.GetName()] = true
		case "Reservation":
			r := read[v1alpha1.Reservation](f, o)
			f.reservations = append(f.reservations, r)
			if _, twice := f.byName[o.GetName()]; !twice {
				f.byName[o.GetName()] = r
			}
		case "ReservationBinding":
			f.bindings = append(f.bindings, read[v1alpha1.ReservationBinding](f, o))
		}
	}
	for i := range s.Live.Reservations {
		f.liveByName[s.Live.Reservations[i].Name] = &s.Live.Reservations[i]
	}
	return f
}

// sorted returns the objects by file, line and key, so that "the first of two" does not depend on the caller.
func sorted(objects []render.Object) []render.Object {
	out := slices.Clone(objects)
	slices.SortStableFunc(out, func(a, b render.Object) int {
		ka, kb := KeyOf(a), KeyOf(b)
		return cmp.Or(
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(ka.Group, kb.Group), cmp.Compare(ka.Kind, kb.Kind),
			cmp.Compare(ka.Namespace, kb.Namespace), cmp.Compare(ka.Name, kb.Name),
			cmp.Compare(a.GetAPIVersion(), b.GetAPIVersion()),
		)
	})
	return out
}

// at returns a finding about an object.
func at(o render.Object, field, message string) render.Finding {
	return render.Finding{
		File: o.File, Line: o.Line, Field: field, Message: message,
		Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(),
	}
}

// warn returns a finding about an object that does not reject the commit.
func warn(o render.Object, field, message string) render.Finding {
	f := at(o, field, message)
	f.Warning = true
	return f
}
