package allocate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Keys of the index ConfigMap's data (DESIGN.md, From grant to lock).
const (
	// KeyNodes holds the fence's parameter: "|gpu-01 tenant-foo|gpu-04 |", a pair per node and accepted namespace,
	// sorted; a node that accepts nobody stands with an empty namespace.
	KeyNodes = "nodes"
	// KeyGrants holds who has which node, a line per node, sorted.
	KeyGrants = "grants"
	// KeyBound holds the namespaces with accepted bindings, "|tenant-foo|tenant-bar|", sorted. The keep-out fence
	// leaves their pods to the webhook.
	KeyBound = "bound"
	// KeyVersion holds a counter that grows with every write. The fence's refusals name it, so that the operator
	// can tell which index the API server enforces.
	KeyVersion = "version"
)

// Phase is where a grant stands in its life.
type Phase string

const (
	// Held: the node is the Reservation's, and its namespaces may run pods there.
	Held Phase = ""
	// Releasing: the Reservation gave the node up. It accepts nobody; its pods may still run.
	Releasing Phase = "releasing"
	// Freed: the tenant's pods are gone and the node is being unlocked. There is no way back to Held before it is.
	Freed Phase = "freed"
)

// Orphan stands in a Grant for the Reservation of a node that bears a tenant's label but names no Reservation. No
// object can have this name.
const Orphan = "-"

// Grant says who has a node.
type Grant struct {
	// Reservation is the holder's name, or Orphan.
	Reservation string
	// Phase is where the grant stands.
	Phase Phase
	// Namespaces are those whose pods the node accepts, sorted; nil if it accepts nobody, as in every phase but Held.
	Namespaces []string
}

// Index is the content of the index ConfigMap: all that allocation remembers. It is a plain value; the zero Index
// grants nothing.
type Index struct {
	// Version is the counter of the write that made it; 0 before the first.
	Version int64
	// Grants maps each node that is not free to its grant.
	Grants map[string]Grant
	// Bound are the namespaces with accepted bindings, sorted.
	Bound []string
}

// Equal reports whether two indexes say the same, whatever their versions.
func (x Index) Equal(y Index) bool {
	return slices.Equal(x.Bound, y.Bound) && maps.EqualFunc(x.Grants, y.Grants, Grant.equal)
}

func (g Grant) equal(h Grant) bool {
	return g.Reservation == h.Reservation && g.Phase == h.Phase && slices.Equal(g.Namespaces, h.Namespaces)
}

// Data returns the index as the data of its ConfigMap. The probe's node is always in it and accepts nobody.
func (x Index) Data() map[string]string {
	var nodes, grants strings.Builder
	nodes.WriteString("|" + v1alpha1.ProbeNode + " |")
	for _, node := range slices.Sorted(maps.Keys(x.Grants)) {
		grant := x.Grants[node]
		for _, namespace := range grant.Namespaces {
			nodes.WriteString(node + " " + namespace + "|")
		}
		if len(grant.Namespaces) == 0 {
			nodes.WriteString(node + " |")
		}
		grants.WriteString(node + " " + grant.Reservation)
		if grant.Phase != Held {
			grants.WriteString(" " + string(grant.Phase))
		}
		grants.WriteString("\n")
	}
	return map[string]string{
		KeyNodes:   nodes.String(),
		KeyGrants:  grants.String(),
		KeyBound:   "|" + strings.Join(append(slices.Clone(x.Bound), ""), "|"),
		KeyVersion: strconv.FormatInt(x.Version, 10),
	}
}

// maxVersion is above any version that counting up from a time in seconds can reach.
const maxVersion = 1 << 53

// Parse reads the data of the index ConfigMap. Empty data is the zero Index. An error says which key and line is
// wrong: somebody else wrote the ConfigMap, and what it grants is not to be guessed. Data that is only written in
// another way than Data writes it, or accepts namespaces on a node that accepts nobody, is read as Data would say it.
func Parse(data map[string]string) (Index, error) {
	x := Index{Grants: map[string]Grant{}}
	if v := data[KeyVersion]; v != "" {
		version, err := strconv.ParseInt(v, 10, 64)
		if err != nil || version < 0 || version > maxVersion {
			return Index{}, fmt.Errorf("index: %s: %q is not a number that this operator wrote", KeyVersion, v)
		}
		x.Version = version
	}
	for i, line := range strings.Split(strings.TrimRight(data[KeyGrants], "\n"), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		grant, ok := parseGrant(fields[1:])
		if !ok || strings.Contains(fields[0], "|") {
			return Index{}, fmt.Errorf("index: %s, line %d: want \"NODE RESERVATION [releasing|freed]\", got %q",
				KeyGrants, i+1, line)
		}
		if _, twice := x.Grants[fields[0]]; twice {
			return Index{}, fmt.Errorf("index: %s, line %d: node %s has a line already", KeyGrants, i+1, fields[0])
		}
		x.Grants[fields[0]] = grant
	}
	if bound := strings.Trim(data[KeyBound], "|"); bound != "" {
		x.Bound = strings.Split(bound, "|")
	}
	for pair := range strings.SplitSeq(strings.Trim(data[KeyNodes], "|"), "|") {
		node, namespace, _ := strings.Cut(pair, " ")
		grant, granted := x.Grants[node]
		if granted && grant.Phase == Held && namespace != "" {
			grant.Namespaces = append(grant.Namespaces, namespace)
			x.Grants[node] = grant
		}
	}
	return x, nil
}

func parseGrant(fields []string) (Grant, bool) {
	switch len(fields) {
	case 1:
		return Grant{Reservation: fields[0]}, true
	case 2:
		phase := Phase(fields[1])
		return Grant{Reservation: fields[0], Phase: phase}, phase == Releasing || phase == Freed
	}
	return Grant{}, false
}

// bytes returns how much of Data a grant takes up.
func (g Grant) bytes(node string) int {
	size := len(node + " " + g.Reservation + "\n")
	if g.Phase != Held {
		size += len(" " + g.Phase)
	}
	if len(g.Namespaces) == 0 {
		return size + len(node+" |")
	}
	for _, namespace := range g.Namespaces {
		size += len(node + " " + namespace + "|")
	}
	return size
}
