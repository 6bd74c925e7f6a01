package render

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// converter makes plain values of a sound document, as kubectl would, and
// reports scalars that look like text where text must stand but are none.
type converter struct {
	*decoder
	// text are the fields that must be text.
	text [][]string
}

// value returns maps, lists, strings, bools, int64, float64 and nil. It reports
// what it cannot convert, and returns nil for that.
func (c *converter) value(node *yaml.Node, f field) any {
	switch node.Kind {
	case yaml.AliasNode:
		return c.value(node.Alias, f)
	case yaml.MappingNode:
		return c.mapping(node, f)
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, item := range node.Content {
			list[i] = c.value(item, f.item(i))
		}
		return list
	default:
		return c.scalar(node, f)
	}
}

func (c *converter) scalar(node *yaml.Node, f field) any {
	if node.Style != 0 { // quoted, a block, or tagged as text
		return node.Value
	}
	if f.matches(c.text) {
		if why := c.trap(node); why != "" {
			c.reportField(node.Line, f, "%s", why)
			return node.Value
		}
	}
	value, err := c.resolve(node.Value)
	if err != nil {
		c.reportField(node.Line, f, "%s cannot be stored in Kubernetes: %v", node.Value, err)
		return nil
	}
	return value
}

func (c *converter) mapping(node *yaml.Node, f field) map[string]any {
	result := map[string]any{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if isMerge(node.Content[i]) {
			c.merge(result, node.Content[i+1], f)
		}
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if isMerge(key) {
			continue
		}
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		result[key.Value] = c.value(node.Content[i+1], f.key(key.Value))
	}
	return result
}

// merge adds what << names: a map, or a list of maps of which the first to have
// a key wins. What stands beside << wins over it.
func (c *converter) merge(into map[string]any, node *yaml.Node, f field) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		maps.Copy(into, c.mapping(node, f))
	case yaml.SequenceNode:
		for _, item := range slices.Backward(node.Content) {
			if item.Kind == yaml.SequenceNode {
				c.reportField(item.Line, f, "<< takes a map or a list of maps")
				continue
			}
			c.merge(into, item, f)
		}
	default:
		c.reportField(node.Line, f, "<< takes a map or a list of maps")
	}
}

// patch converts a patch: a map, or a list of JSON patch operations whose
// values stand where their paths say.
func (c *converter) patch(node *yaml.Node) any {
	if node.Kind != yaml.SequenceNode {
		return c.value(node, nil)
	}
	list := make([]any, len(node.Content))
	for i, operation := range node.Content {
		list[i] = c.value(operation, field{}.item(i))
		converted, _ := list[i].(map[string]any)
		path, ok := converted["path"].(string)
		if !ok {
			continue
		}
		for k := 0; operation.Kind == yaml.MappingNode && k+1 < len(operation.Content); k += 2 {
			if operation.Content[k].Value == "value" {
				// For its reports only.
				c.value(operation.Content[k+1], pointer(path))
			}
		}
	}
	return list
}
