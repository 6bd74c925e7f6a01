package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// claims finds nodes that a Reservation of the set shares with another one, of the set or live.
func claims(f *facts) []render.Finding {
	all := make([]v1alpha1.Reservation, 0, len(f.reservations)+len(f.Live.Reservations))
	for _, r := range f.reservations {
		claimant := *r.value
		if before := f.Live.Before[claimant.Name]; before != nil {
			claimant.CreationTimestamp = before.CreationTimestamp
		}
		all = append(all, claimant)
	}
	for _, live := range f.Live.Reservations {
		if _, inSet := f.byName[live.Name]; !inSet {
			all = append(all, live)
		}
	}

	type pair struct {
		mine, other string
		// before: it was so before this commit, which is not to blame and must not be held up.
		before bool
	}
	var order []pair
	nodes := map[pair][]string{}
	for _, o := range Overlaps(all) {
		p := pair{mine: o.Second.Name, other: o.First.Name}
		if _, inSet := f.byName[p.mine]; !inSet {
			p.mine, p.other = p.other, p.mine
		}
		if _, inSet := f.byName[p.mine]; !inSet {
			continue // two live ones: no commit of this source cures that
		}
		_, both := f.byName[p.other]
		p.before = !both && slices.Contains(f.had(p.mine), o.Node)
		if nodes[p] == nil {
			order = append(order, p)
		}
		nodes[p] = append(nodes[p], o.Node)
	}

	var out []render.Finding
	for _, p := range order {
		finding := at(f.byName[p.mine].object, "spec.reservedNodes", fmt.Sprintf(
			"%s %s also reserved by %s: a node belongs to one Reservation, so take it out of one of them",
			few(nodes[p]), isAre(len(nodes[p])), f.describe(p.other)))
		finding.Warning = p.before
		out = append(out, finding)
	}
	return out
}

// had returns the nodes that a Reservation of the set names as it lives.
func (f *facts) had(reservation string) []string {
	if before := f.Live.Before[reservation]; before != nil {
		return before.Spec.ReservedNodes
	}
	return nil
}

// repeated finds nodes that one Reservation names more than once. The API server refuses them too, in other words.
func repeated(f *facts) []render.Finding {
	var out []render.Finding
	for _, r := range f.reservations {
		times := map[string]int{}
		var twice []string
		for _, node := range r.value.Spec.ReservedNodes {
			if times[node]++; times[node] == 2 {
				twice = append(twice, node)
			}
		}
		if len(twice) > 0 {
			out = append(out, at(r.object, "spec.reservedNodes", fmt.Sprintf("%s %s named more than once: leave one line of each", few(twice), isAre(len(twice)))))
		}
	}
	return out
}

// held finds nodes that a Reservation of the set comes to name while another one, of the set or live, holds them through
// its nodeSelector and goes on to: they would never be handed over. Of nodes that nobody holds, those that another one of
// the set would take as well. Whom a node belongs to that both had before is for the allocation to say, since labels of
// nodes change without a commit.
func held(f *facts) []render.Finding {
	var pools []string
	for _, name := range slices.Sorted(maps.Keys(f.byName)) {
		if spec := f.byName[name].value.Spec; spec.NodeSelector != nil && spec.ReservedNodes == nil {
			pools = append(pools, name)
		}
	}
	var out []render.Finding
	for _, r := range f.reservations {
		had := f.had(r.value.Name)
		nodes := map[string][]string{}
		for _, node := range r.value.Spec.ReservedNodes {
			rivals := pools
			if holder := f.Live.Holders[node]; holder != "" {
				rivals = []string{holder}
			}
			i := slices.IndexFunc(rivals, func(rival string) bool { return rival != r.value.Name && f.pools(rival, node) })
			if i >= 0 && !slices.Contains(had, node) {
				nodes[rivals[i]] = append(nodes[rivals[i]], node)
			}
		}
		for _, rival := range slices.Sorted(maps.Keys(nodes)) {
			out = append(out, at(r.object, "spec.reservedNodes", fmt.Sprintf(
				"%s %s also matched by the nodeSelector of %s: a node belongs to one Reservation, so narrow that selector or leave the node out",
				few(nodes[rival]), isAre(len(nodes[rival])), f.describe(rival))))
		}
	}
	return out
}

// pools reports whether a Reservation, as it will be, claims a node through its nodeSelector alone.
func (f *facts) pools(reservation, name string) bool {
	r := f.liveByName[reservation]
	if inSet, ok := f.byName[reservation]; ok {
		r = inSet.value
	}
	if r == nil || !r.DeletionTimestamp.IsZero() || r.Spec.NodeSelector == nil || r.Spec.ReservedNodes != nil {
		return false
	}
	node, exists := f.Live.Nodes[name]
	selector, err := metav1.LabelSelectorAsSelector(r.Spec.NodeSelector)
	return err == nil && exists && selector.Matches(labels.Set(node))
}

// wholeCluster warns of a selector that leaves nothing out.
func wholeCluster(f *facts) []render.Finding {
	var out []render.Finding
	for _, r := range f.reservations {
		selector, found, err := unstructured.NestedMap(r.object.Object, "spec", "nodeSelector")
		if found && err == nil && len(selector) == 0 && r.value.Spec.ReservedNodes == nil {
			out = append(out, warn(r.object, "spec.nodeSelector",
				"is empty, so it reserves every node of the cluster that is not reserved yet, those of the control plane too"))
		}
	}
	return out
}

// describe names a Reservation so that its owner can be found.
func (f *facts) describe(name string) string {
	if r, inSet := f.byName[name]; inSet {
		return fmt.Sprintf("Reservation %s in %s", name, where(r.object))
	}
	if source := f.liveByName[name].Labels[v1alpha1.LabelSource]; source != "" {
		return fmt.Sprintf("the live Reservation %s of the source %s", name, source)
	}
	return fmt.Sprintf("the live Reservation %s", name)
}

func missingNodes(f *facts) []render.Finding {
	if f.Live.Nodes == nil {
		return nil
	}
	var out []render.Finding
	for _, r := range f.reservations {
		var missing []string
		for _, node := range r.value.Spec.ReservedNodes {
			if _, exists := f.Live.Nodes[node]; !exists {
				missing = append(missing, node)
			}
		}
		if len(missing) > 0 {
			out = append(out, warn(r.object, "spec.reservedNodes", fmt.Sprintf(
				"no node of that name exists: %s; it is locked when it appears", few(missing))))
		}
	}
	return out
}

// few joins names, the first five of them.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
