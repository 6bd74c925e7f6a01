package render

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	k8syaml "sigs.k8s.io/yaml"
)

// candidate is the shape of every unquoted scalar that any YAML reader takes
// for something else than text: it begins like a number, or is one of a few
// words.
var candidate = regexp.MustCompile(`^([-+.0-9~][-+.0-9A-Za-z_]*|(?i:y|n|yes|no|on|off|true|false|null))?$`)

// integer is the shape of a number that needs no second opinion.
var integer = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,17})$`)

// resolve returns the value of an unquoted scalar as kubectl reads it, which is
// mostly YAML 1.1: on is true, 0123 is 83, 1:30 is text. Both paths of this
// package take the value from here.
func (d *decoder) resolve(text string) (any, error) {
	if !candidate.MatchString(text) || strings.HasPrefix(text, "---") {
		return text, nil
	}
	if integer.MatchString(text) {
		return strconv.ParseInt(text, 10, 64)
	}
	if value, ok := d.resolved[text]; ok {
		return value, nil
	}
	// kubectl's own reader is asked, so that there are no two opinions.
	doc, err := k8syaml.YAMLToJSON([]byte("a: " + text))
	if err != nil {
		return nil, err
	}
	var value map[string]any
	if err := utiljson.Unmarshal(doc, &value); err != nil {
		return nil, err
	}
	if d.resolved == nil {
		d.resolved = map[string]any{}
	}
	d.resolved[text] = value["a"]
	return value["a"], nil
}

var (
	// truth is what YAML 1.1, in whatever case, may take for true or false.
	truth = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null)$`)
	// sexagesimal is 1:30, which YAML 1.1 has as 90.
	sexagesimal = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)
)

// trap says what an unquoted scalar is read as, when there is a YAML reader to
// which it is not text; "" for text. A date is text to every reader that
// matters here.
func (d *decoder) trap(node *yaml.Node) string {
	if node.Kind != yaml.ScalarNode || node.Style != 0 {
		return ""
	}
	text := node.Value
	value, err := d.resolve(text)
	switch {
	case text == "":
		return `is empty: write "" or leave it out`
	case err != nil:
		return text + " is not text: quote it"
	}
	switch v := value.(type) {
	case bool:
		if v {
			return text + " is read as true: quote it"
		}
		return text + " is read as false: quote it"
	case nil:
		return text + " is read as nothing: quote it"
	case int64, float64:
		return text + " is read as a number: quote it"
	}
	switch {
	case truth.MatchString(text):
		return text + " is read as a truth value by some YAML readers: quote it"
	case sexagesimal.MatchString(text), node.ShortTag() == "!!int", node.ShortTag() == "!!float":
		return text + " is read as a number by some YAML readers: quote it"
	}
	return ""
}
