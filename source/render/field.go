package render

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// field is where a value stands in a document. The fields of two siblings share
// memory: who keeps one beyond a call keeps its String.
type field []step

// step goes into a map by key, or into a list by index.
type step struct {
	key   string
	index int
	list  bool
}

func (f field) key(key string) field {
	return append(f, step{key: key})
}

func (f field) item(index int) field {
	return append(f, step{index: index, list: true})
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// String is the path as kubectl shows it: spec.reservedNodes[2],
// metadata.labels[reserved.tenant].
func (f field) String() string {
	var b strings.Builder
	for _, s := range f {
		switch {
		case s.list:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case !plainKey.MatchString(s.key):
			b.WriteString("[" + s.key + "]")
		case b.Len() > 0:
			b.WriteString("." + s.key)
		default:
			b.WriteString(s.key)
		}
	}
	return tidy(b.String())
}

// textFields are the ends of the paths at which only text makes sense, so that
// a scalar which some YAML reader takes for a number or a truth value is a
// mistake. ? is any key, * any index; a leading ^ binds to the root.
var textFields = [][]string{
	{"^", "apiVersion"}, {"^", "kind"},
	{"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "generateName"},
	{"metadata", "labels", "?"}, {"metadata", "annotations", "?"},
	{"matchLabels", "?"},
	{"matchExpressions", "*", "key"}, {"matchExpressions", "*", "operator"}, {"matchExpressions", "*", "values", "*"},
	{"^", "spec", "tenant"}, {"^", "spec", "reservationName"}, {"^", "spec", "scope"}, {"^", "spec", "taintEffect"},
	{"^", "spec", "reservedNodes", "*"}, {"^", "spec", "namespaces", "*"},
}

// kustomizationTextFields are those of a kustomization.
var kustomizationTextFields = [][]string{
	{"^", "apiVersion"}, {"^", "kind"}, {"^", "namespace"}, {"^", "namePrefix"}, {"^", "nameSuffix"},
	{"^", "resources", "*"}, {"^", "components", "*"}, {"^", "bases", "*"},
	{"^", "commonLabels", "?"}, {"^", "commonAnnotations", "?"}, {"^", "labels", "*", "pairs", "?"},
}

// matches says whether the field ends as one of the patterns does.
func (f field) matches(patterns [][]string) bool {
	return slices.ContainsFunc(patterns, f.endsAs)
}

func (f field) endsAs(pattern []string) bool {
	if pattern[0] == "^" {
		pattern = pattern[1:]
		if len(pattern) != len(f) {
			return false
		}
	}
	if len(pattern) > len(f) {
		return false
	}
	for i, s := range f[len(f)-len(pattern):] {
		if want := pattern[i]; s.list != (want == "*") || !s.list && want != "?" && want != s.key {
			return false
		}
	}
	return true
}

// pointer reads the path of a JSON patch operation.
func pointer(path string) field {
	var f field
	for word := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		word = strings.NewReplacer("~1", "/", "~0", "~").Replace(word)
		if index, err := strconv.Atoi(word); err == nil || word == "-" {
			f = f.item(max(index, 0))
		} else {
			f = f.key(word)
		}
	}
	return f
}
