package plan

import (
	"fmt"
	"strings"
)

// NodesLocked returns how many nodes get a new lock.
func (p Plan) NodesLocked() int { return len(p.Locked) + len(p.HandedOver) }

// NodesReleased returns how many nodes a tenant loses: those that are released and those handed over to another
// tenant.
func (p Plan) NodesReleased() int {
	n := len(p.Released)
	for _, h := range p.HandedOver {
		if h.FromTenant != h.ToTenant {
			n++
		}
	}
	return n
}

// IsEmpty reports whether nothing would be written and no node changes.
func (p Plan) IsEmpty() bool {
	return len(p.Created)+len(p.Changed)+len(p.Deleted)+len(p.Locked)+len(p.Released)+len(p.HandedOver) == 0
}

// String says in one line, for people, what the plan does:
//
//	2 objects changed; 1 node locked (gpu-05), 1 node released (gpu-04)
//
// It has no warnings and a bounded length: of each kind of change the first five nodes are named.
func (p Plan) String() string {
	objects := join(
		count(len(p.Created), "object", "created", nil),
		count(len(p.Changed), "object", "changed", nil),
		count(len(p.Deleted), "object", "deleted", nil),
	)
	var locked, released, handed, pending []string
	for _, l := range p.Locked {
		locked = append(locked, l.Node)
	}
	for _, r := range p.Released {
		released = append(released, r.Node+r.pods())
	}
	for _, h := range p.HandedOver {
		handed = append(handed, fmt.Sprintf("%s from %s to %s", h.Node, h.From, h.To))
	}
	for _, n := range p.Pending {
		pending = append(pending, n.describe())
	}
	nodes := join(
		count(len(locked), "node", "locked", locked),
		count(len(released), "node", "released", released),
		count(len(handed), "node", "handed over", handed),
		count(len(pending), "node", "pending", pending),
	)
	switch {
	case objects == "" && nodes == "":
		return "nothing to do"
	case nodes == "":
		return objects + "; no node changes"
	case objects == "":
		return nodes
	}
	return objects + "; " + nodes
}

func (r Release) pods() string {
	switch {
	case r.Pods <= 0:
		return ""
	case r.Evicts:
		return fmt.Sprintf(": evicts %s", pods(r.Pods))
	default:
		return fmt.Sprintf(": waits for %s", pods(r.Pods))
	}
}

func (n Pending) describe() string {
	if n.By == "" {
		return fmt.Sprintf("%s: %s", n.Node, n.Reason)
	}
	return fmt.Sprintf("%s: %s %s", n.Node, n.Reason, n.By)
}

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// count returns "2 objects changed (…)", or nothing for none.
func count(n int, noun, verb string, names []string) string {
	const most = 5
	if n == 0 {
		return ""
	}
	if n > 1 {
		noun += "s"
	}
	text := fmt.Sprintf("%d %s %s", n, noun, verb)
	switch {
	case len(names) > most:
		text += fmt.Sprintf(" (%s and %d more)", strings.Join(names[:most], ", "), len(names)-most)
	case len(names) > 0:
		text += fmt.Sprintf(" (%s)", strings.Join(names, ", "))
	}
	return text
}

func join(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}
