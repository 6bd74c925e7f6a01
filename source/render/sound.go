package render

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// sound checks the structure of one document and reports what is wrong with it.
// It costs no more than the document's own size, however large its aliases
// would make it.
func (d *decoder) sound(root *yaml.Node, lines []string) bool {
	c := structure{decoder: d, lines: lines, anchors: map[*yaml.Node]bool{}, sizes: map[*yaml.Node]int{}}
	before := len(d.findings)
	size := c.visit(root, nil)
	if size > d.limits.Nodes {
		d.report(root.Line, "is too large with its aliases expanded: more than %d values", d.limits.Nodes)
	} else if d.spent != nil {
		if *d.spent += size; *d.spent > allNodes*d.limits.Nodes {
			d.report(root.Line, "is one document too many: all together have more than %d values", allNodes*d.limits.Nodes)
		}
	}
	return len(d.findings) == before
}

// allNodes times the limit of one document is that of all together.
const allNodes = 10

// structure is one walk over a document.
type structure struct {
	*decoder
	// anchors are the nodes of this document that bear one: the parser knows
	// those of earlier documents too.
	anchors map[*yaml.Node]bool
	// lines are the file's, if there is a ! in it.
	lines []string
	// sizes are the expanded sizes of nodes with an anchor; 0 while being visited.
	sizes map[*yaml.Node]int
}

// textPerNode is how many bytes of text weigh as much as one value. It bounds
// what a long text that is repeated by aliases takes.
const textPerNode = 100

// visit returns how many values the node stands for with all aliases expanded.
func (c *structure) visit(node *yaml.Node, f field) int {
	if len(f) > c.limits.Depth {
		c.reportField(node.Line, f[:3], "is nested deeper than %d", c.limits.Depth)
		return 1
	}
	if node.Kind == yaml.AliasNode {
		return c.alias(node, f)
	}
	if node.Anchor != "" {
		c.anchors[node] = true
		c.sizes[node] = 0
	}
	c.tag(node, f)
	size := 1 + len(node.Value)/textPerNode
	switch node.Kind {
	case yaml.MappingNode:
		size = c.add(size, c.mapping(node, f))
	case yaml.SequenceNode:
		for i, item := range node.Content {
			size = c.add(size, c.visit(item, f.item(i)))
		}
	}
	if node.Anchor != "" {
		c.sizes[node] = size
	}
	return size
}

// add adds without ever passing far over the limit, so that it cannot overflow.
func (c *structure) add(a, b int) int {
	return min(a+b, c.limits.Nodes+1)
}

func (c *structure) alias(node *yaml.Node, f field) int {
	switch size := c.sizes[node.Alias]; {
	case !c.anchors[node.Alias]:
		c.reportField(node.Line, f, "%s", unknownAnchorMessage(node.Value))
		return 1
	case size == 0:
		c.reportField(node.Line, f, "alias %q stands inside of its own anchor", node.Value)
		return 1
	default:
		return size
	}
}

func (c *structure) mapping(node *yaml.Node, f field) int {
	size := 0
	lines := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind == yaml.AliasNode && c.anchors[key.Alias] {
			key = key.Alias
		}
		name := f.key(key.Value)
		switch first, twice := lines[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			c.reportField(node.Content[i].Line, f, "has a key that is not text")
			continue
		case twice:
			c.reportField(node.Content[i].Line, name, "stands here and in line %d: keep one of them, the other would be lost", first+c.base)
		case !isMerge(key) && c.trap(key) != "":
			c.reportField(key.Line, f, "key %s", c.trap(key))
		}
		lines[key.Value] = node.Content[i].Line
		size = c.add(size, 1+c.visit(value, name))
	}
	return size
}

// isMerge says whether a key is <<, which takes over another map's entries.
func isMerge(key *yaml.Node) bool {
	return key.Tag == "!!merge" && key.Style == 0
}

// tag refuses the tags that kubectl or kustomize would read differently.
func (c *structure) tag(node *yaml.Node, f field) {
	if node.Kind == yaml.ScalarNode && node.Style == 0 && c.bang(node) {
		// "! 12" is text, but the parser does not hand that on.
		c.reportField(node.Line, f, "tag ! is not supported: quote the value instead")
	}
	if node.Style&yaml.TaggedStyle == 0 {
		return
	}
	switch tag := node.ShortTag(); {
	case node.Kind == yaml.ScalarNode && tag == "!!str":
	case node.Kind == yaml.MappingNode && tag == "!!map":
	case node.Kind == yaml.SequenceNode && tag == "!!seq":
	default:
		c.reportField(node.Line, f, "tag %s is not supported: write the value without it", tag)
	}
}

// lineBreak is what the parser takes for the end of a line.
var lineBreak = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

// bang says whether an unquoted scalar has a lone ! before it. No unquoted
// scalar begins with one, or with the & of an anchor.
func (c *structure) bang(node *yaml.Node) bool {
	if node.Line > len(c.lines) {
		return false
	}
	text := []rune(c.lines[node.Line-1])
	rest := string(text[min(node.Column-1, len(text)):])
	if strings.HasPrefix(rest, "&") {
		_, rest, _ = strings.Cut(rest, " ")
		rest = strings.TrimLeft(rest, " \t")
	}
	return strings.HasPrefix(rest, "!")
}
