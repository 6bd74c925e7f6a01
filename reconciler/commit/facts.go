package commit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/apply"
	"github.com/reservation-operator/reservation-operator/reconciler/binding"
	"github.com/reservation-operator/reservation-operator/source/check"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// facts are what lives in the cluster, gathered once per pass.
type facts struct {
	reservations []v1alpha1.Reservation
	nodes        []allocate.Node
	// namespaces are those that the commit mentions and does not make.
	namespaces map[string]string
	// objects are those of the commit that exist.
	objects map[apply.Entry]*unstructured.Unstructured
	index   allocate.Index
}

// gather reads the facts that a set of objects is checked against.
func (x *run) gather(ctx context.Context, objects []render.Object) (facts, error) {
	var f facts
	var err error
	if f.objects, err = x.applier().Gather(ctx, check.Storable(objects)); err != nil {
		return f, err
	}
	var reservations v1alpha1.ReservationList
	if err := x.Client.List(ctx, &reservations); err != nil {
		return f, fmt.Errorf("listing reservations: %w", err)
	}
	f.reservations = reservations.Items
	var nodes corev1.NodeList
	if err := x.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		f.nodes = append(f.nodes, allocate.NodeOf(&nodes.Items[i]))
	}
	if f.namespaces, err = x.gatherNamespaces(ctx, check.Mentioned(objects)); err != nil {
		return f, err
	}
	f.index, err = x.gatherIndex(ctx)
	return f, err
}

func (x *run) gatherNamespaces(ctx context.Context, names []string) (map[string]string, error) {
	var entries []apply.Entry
	for _, name := range names {
		entries = append(entries, apply.Entry{Version: "v1", Kind: "Namespace", Name: name})
	}
	live, err := x.applier().Lookup(ctx, entries)
	found := map[string]string{}
	for e, namespace := range live {
		found[e.Name] = owner(namespace)
	}
	return found, err
}

// gatherIndex reads who holds which node. An index that is missing or cannot be read grants nothing: the nodes' own
// locks, which the plan sees too, say who holds what.
func (x *run) gatherIndex(ctx context.Context) (allocate.Index, error) {
	stored := &corev1.ConfigMap{}
	err := x.Live.Get(ctx, types.NamespacedName{Namespace: x.Namespace, Name: v1alpha1.IndexName}, stored)
	if err != nil {
		return allocate.Index{}, client.IgnoreNotFound(err)
	}
	index, err := allocate.Parse(stored.Data)
	if err != nil {
		return allocate.Index{}, nil
	}
	return index, nil
}

// set returns the commit with what it is checked against.
func (x *run) set() check.Set {
	s := check.Set{
		Source: x.source.Name, AllowEmpty: x.source.Spec.AllowEmpty, OperatorNamespace: x.Namespace,
		ReservedNamespaces: x.ReservedNamespaces, ReservedLabels: x.ReservedLabels, Accept: binding.Accept,
		Live: check.Live{
			Reservations: x.besideTheSet(), Owners: map[check.Key]string{},
			Namespaces: x.facts.namespaces, Nodes: map[string]map[string]string{},
			Holders: holders(x.facts.index), Before: map[string]*v1alpha1.Reservation{}, Said: x.said(),
		},
	}
	for i := range x.facts.reservations {
		s.Live.Before[x.facts.reservations[i].Name] = &x.facts.reservations[i]
	}
	for e, o := range x.facts.objects {
		s.Live.Owners[check.Key{Group: e.Group, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}] = owner(o)
	}
	for _, n := range x.facts.nodes {
		s.Live.Nodes[n.Name] = n.Labels
	}
	return s
}

// holders returns whose each node is: who is still releasing it gets it back before anybody else.
func holders(index allocate.Index) map[string]string {
	out := map[string]string{}
	for node, grant := range index.Grants {
		if grant.Phase != allocate.Freed {
			out[node] = grant.Reservation
		}
	}
	return out
}

// said returns the nodes that Git named for each Reservation before this pass. A commit that is applied already said
// all it says, whatever somebody took out of the cluster since.
func (x *run) said() map[string][]string {
	said := map[string][]string{}
	for e, o := range x.facts.objects {
		if e.Group == v1alpha1.Group && e.Kind == "Reservation" {
			said[e.Name] = apply.SaidNodes(o)
		}
	}
	if _, asItIs := x.isApplied(); asItIs {
		for _, r := range check.Reservations(x.loaded.Objects) {
			said[r.Name] = r.Spec.ReservedNodes
		}
	}
	return said
}

// besideTheSet returns the Reservations that will exist beside those of the commit: all but those and the ones that
// the commit removes.
func (x *run) besideTheSet() []v1alpha1.Reservation {
	inSet := map[string]bool{}
	for _, r := range check.Reservations(x.loaded.Objects) {
		inSet[r.Name] = true
	}
	removed := map[string]bool{}
	for _, name := range x.removed("Reservation") {
		removed[name] = true
	}
	var out []v1alpha1.Reservation
	for _, r := range x.facts.reservations {
		goes := removed[r.Name] && owner(&r) == x.source.Name && r.Annotations[v1alpha1.AnnotationReconcile] != "disabled"
		if !inSet[r.Name] && !goes {
			out = append(out, r)
		}
	}
	return out
}

// removed returns the names of objects of a kind that the commit no longer contains and that are pruned.
func (x *run) removed(kind string) []string {
	var out []string
	for _, e := range x.toPrune() {
		if e.Kind == kind {
			out = append(out, e.Name)
		}
	}
	return out
}

// toPrune returns what the commit no longer contains.
func (x *run) toPrune() []apply.Entry {
	if !x.source.Prunes() {
		return nil
	}
	return apply.Difference(x.source.Status.Inventory, apply.EntriesOf(x.loaded.Objects))
}

// running reports whether a namespace has pods that have not ended.
func (x *run) running(ctx context.Context, namespace string) (bool, error) {
	var pods corev1.PodList
	err := x.Live.List(ctx, &pods, client.InNamespace(namespace), client.Limit(1), client.MatchingFieldsSelector{
		Selector: fields.AndSelectors(
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed))),
	})
	return len(pods.Items) > 0, err
}

func (x *run) applier() *apply.Applier {
	return &apply.Applier{Client: x.Client, Live: x.Live, Namespace: x.Namespace, User: x.User, Running: x.running}
}

// owned returns the Reservations and ReservationBindings that bear the source's label, as the cache has them. They
// are the cache's own and must not be changed.
func (x *run) owned(ctx context.Context) ([]v1alpha1.Reservation, []v1alpha1.ReservationBinding, error) {
	label := client.MatchingLabels{v1alpha1.LabelSource: x.source.Name}
	var reservations v1alpha1.ReservationList
	if err := x.Client.List(ctx, &reservations, label, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing reservations: %w", err)
	}
	var bindings v1alpha1.ReservationBindingList
	if err := x.Client.List(ctx, &bindings, label, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing reservationbindings: %w", err)
	}
	return reservations.Items, bindings.Items, nil
}
