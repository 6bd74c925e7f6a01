package check

import (
	"fmt"
	"strings"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// claims finds nodes that a Reservation of the set shares with another one, of the set or live.
func claims(f *facts) []render.Finding {
	all := make([]v1alpha1.Reservation, 0, len(f.reservations)+len(f.Live.Reservations))
	for _, r := range f.reservations {
		claimant := *r.value
		claimant.CreationTimestamp = f.Live.Since[claimant.Name]
		all = append(all, claimant)
	}
	for _, live := range f.Live.Reservations {
		if _, inSet := f.byName[live.Name]; !inSet {
			all = append(all, live)
		}
	}

	type pair struct{ mine, other string }
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
		if nodes[p] == nil {
			order = append(order, p)
		}
		nodes[p] = append(nodes[p], o.Node)
	}

	var out []render.Finding
	for _, p := range order {
		mine := f.byName[p.mine]
		out = append(out, at(mine.object, "spec.reservedNodes", fmt.Sprintf(
			"%s %s also reserved by %s: a node belongs to one Reservation, so take it out of one of them",
			few(nodes[p]), isAre(len(nodes[p])), f.describe(p.other))))
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
			if !f.Live.Nodes[node] {
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
