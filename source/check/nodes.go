package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		p.before = !both && slices.Contains(f.Live.Said[p.mine], o.Node)
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

// held finds nodes that a Reservation of the set names while another one, of the set or live, has them through its
// nodeSelector, or would get them first: they would never be handed over. It is a warning if Git had named the node
// before, since labels of nodes change without a commit: the allocation says whom it belongs to.
func held(f *facts) []render.Finding {
	pools := f.pools()
	names := slices.Sorted(maps.Keys(pools))
	type claim struct {
		rival  string
		before bool
	}
	var out []render.Finding
	for _, r := range f.reservations {
		var order []claim
		nodes := map[claim][]string{}
		for _, node := range r.value.Spec.ReservedNodes {
			rival := f.rival(r.value.Name, node, pools, names)
			if rival == "" {
				continue
			}
			c := claim{rival, slices.Contains(f.Live.Said[r.value.Name], node)}
			if nodes[c] == nil {
				order = append(order, c)
			}
			nodes[c] = append(nodes[c], node)
		}
		for _, c := range order {
			finding := at(r.object, "spec.reservedNodes", fmt.Sprintf(
				"%s %s also matched by the nodeSelector of %s: a node belongs to one Reservation, so narrow that selector or leave the node out",
				few(nodes[c]), isAre(len(nodes[c])), f.describe(c.rival)))
			finding.Warning = c.before
			out = append(out, finding)
		}
	}
	return out
}

// rival returns the Reservation that has a node through its nodeSelector, or gets it, instead of the one that names it;
// empty if there is none. Who holds a node and claims it still keeps it; any other goes to who is older. That says nothing
// of two that a commit writes: the allocation may decide when it has seen one of them.
func (f *facts) rival(reservation, node string, pools map[string]labels.Selector, names []string) string {
	labelled, exists := f.Live.Nodes[node]
	takes := func(name string) bool {
		selector, isPool := pools[name]
		return isPool && exists && selector.Matches(labels.Set(labelled))
	}
	holder := f.Live.Holders[node]
	if holder == reservation {
		return ""
	}
	if takes(holder) {
		return holder
	}
	mine := f.Live.Before[reservation]
	for _, name := range names {
		_, written := f.byName[name]
		first := mine != nil && !written && v1alpha1.CompareClaims(mine, f.liveByName[name]) < 0
		if !first && takes(name) {
			return name
		}
	}
	return ""
}

// pools returns the Reservations that will claim nodes through their nodeSelector alone, of the set and live, by name.
// What cannot be read is not among them.
func (f *facts) pools() map[string]labels.Selector {
	out := map[string]labels.Selector{}
	add := func(r *v1alpha1.Reservation) {
		selector, err := metav1.LabelSelectorAsSelector(r.Spec.NodeSelector)
		if err == nil && r.DeletionTimestamp.IsZero() && r.Spec.NodeSelector != nil && r.Spec.ReservedNodes == nil {
			out[r.Name] = selector
		}
	}
	for name, r := range f.liveByName {
		if _, inSet := f.byName[name]; !inSet {
			add(r)
		}
	}
	for _, r := range f.byName {
		add(r.value)
	}
	return out
}

// wholeCluster warns of a selector that leaves nothing out; of a Reservation that can be read, since what cannot is not in
// its selector.
func wholeCluster(f *facts) []render.Finding {
	var out []render.Finding
	for _, r := range f.reservations {
		selector, err := metav1.LabelSelectorAsSelector(r.value.Spec.NodeSelector)
		if err == nil && selector.Empty() && r.value.Spec.ReservedNodes == nil && r.readable {
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
