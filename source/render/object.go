package render

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is one rendered object with where it was written.
type Object struct {
	*unstructured.Unstructured
	// File is the slash path, from the repository's root, of the file the object
	// was written in; if that is not known, its kustomization's.
	File string
	// Line is where the object begins in File, from 1; 0 if not known.
	Line int
}

// objects decodes a file of objects, Lists expanded.
func (d *decoder) objects(data []byte) []Object {
	var objects []Object
	for _, doc := range d.documents(data) {
		objects = append(objects, d.expand(doc.root, doc.line, 0)...)
	}
	return objects
}

// expand returns the object that the node holds, or those of a List.
func (d *decoder) expand(node *yaml.Node, line, depth int) []Object {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode {
		d.report(line, "holds %s, not an object: an object is a map with apiVersion, kind and metadata", kindOf(node))
		return nil
	}
	if items, ok := itemsOf(node); ok {
		return d.list(items, depth)
	}
	before := len(d.findings)
	c := converter{decoder: d, text: textFields}
	content := c.mapping(node, nil)
	object := Object{Unstructured: &unstructured.Unstructured{Object: content}, File: d.file, Line: line + d.base}
	d.findings = append(d.findings, object.incomplete()...)
	for i := range d.findings[before:] {
		object.name(&d.findings[before+i])
	}
	if len(d.findings) > before {
		return nil
	}
	return []Object{object}
}

func kindOf(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.Tag == "!!null":
		return "nothing (null)"
	default:
		return "a single value"
	}
}

// itemsOf returns the items of a List: kind List, or a kind that ends so and
// has items. The node is nil for a List without them.
func itemsOf(node *yaml.Node) (*yaml.Node, bool) {
	kind, items := "", (*yaml.Node)(nil)
	for i := 0; i+1 < len(node.Content); i += 2 {
		switch node.Content[i].Value {
		case "kind":
			kind = node.Content[i+1].Value
		case "items":
			items = node.Content[i+1]
		}
	}
	return items, kind == "List" || (strings.HasSuffix(kind, "List") && items != nil)
}

func (d *decoder) list(items *yaml.Node, depth int) []Object {
	for items != nil && items.Kind == yaml.AliasNode {
		items = items.Alias
	}
	switch {
	case items == nil || items.Kind == yaml.ScalarNode && items.Tag == "!!null":
		return nil
	case items.Kind != yaml.SequenceNode:
		d.reportField(items.Line, field{}.key("items"), "is not a list")
		return nil
	case depth >= d.limits.Depth:
		d.report(items.Line, "Lists are nested deeper than %d", d.limits.Depth)
		return nil
	}
	var objects []Object
	for _, item := range items.Content {
		objects = append(objects, d.expand(item, item.Line, depth+1)...)
	}
	return objects
}

// incomplete reports what every object must have.
func (o Object) incomplete() []Finding {
	var findings []Finding
	report := func(field, message string) {
		findings = append(findings, Finding{File: o.File, Line: o.Line, Field: field, Message: message})
	}
	for _, f := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}} {
		text, found, err := unstructured.NestedString(o.Object, f...)
		switch {
		case err != nil:
			report(strings.Join(f, "."), "is not text")
		case !found || text == "":
			report(strings.Join(f, "."), "is missing")
		}
	}
	// With one entry that is not text, all of them would be ignored.
	for _, f := range []string{"labels", "annotations"} {
		if value, _, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata", f); value == nil {
			continue
		}
		if _, _, err := unstructured.NestedStringMap(o.Object, "metadata", f); err != nil {
			report("metadata."+f, "is not a map of texts: quote its values")
		}
	}
	return findings
}

// name says in a finding which object it is about.
func (o Object) name(f *Finding) {
	f.Kind, f.Name, f.Namespace = o.text("kind"), o.text("metadata", "name"), o.text("metadata", "namespace")
}

func (o Object) text(path ...string) string {
	text, _, _ := unstructured.NestedString(o.Object, path...)
	return tidy(text)
}

// at is where the object was written.
func (o Object) at() string {
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}
