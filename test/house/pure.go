package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Pure are the files that decide: facts in, answer out. Patterns stand for all files that they match but tests.
var Pure = []string{
	"api/v1alpha1/*.go",
	"reconciler/allocate/claims.go",
	"reconciler/allocate/decide.go",
	"reconciler/allocate/index.go",
	"reconciler/allocate/status.go",
	"reconciler/apply/compare.go",
	"reconciler/apply/foreign.go",
	"reconciler/apply/inventory.go",
	"reconciler/binding/accept.go",
	"reconciler/binding/decide.go",
	"reconciler/commit/converge.go",
	"reconciler/commit/drift.go",
	"reconciler/commit/history.go",
	"reconciler/commit/text.go",
	"reconciler/lock/*.go",
	"reconciler/node/drain.go",
	"reconciler/node/pods.go",
	"reconciler/node/step.go",
	"reconciler/plan/*.go",
	"source/check/*.go",
	"source/fetch/limits.go",
	"source/fetch/redact.go",
	"source/fetch/url.go",
	"source/render/decode.go",
	"source/render/field.go",
	"source/render/finding.go",
	"source/render/limits.go",
	"source/render/memory.go",
	"source/render/object.go",
	"source/render/scalar.go",
	"source/render/sound.go",
	"source/render/tree.go",
	"source/render/value.go",
	"webhook/fence/keepout.go",
	"webhook/fence/node.go",
	"webhook/fence/policies.go",
	"webhook/inject/affinity.go",
	"webhook/inject/inject.go",
	"webhook/inject/pod.go",
	"webhook/inject/toleration.go",
	"webhook/serve/bundle.go",
	"webhook/serve/configurations.go",
	"webhook/serve/endpoint.go",
	"webhook/serve/state.go",
	"webhook/validate/rules.go",
}

// outside are packages of the standard library that reach out of the program, or bring chance into it.
var outside = []string{
	"context", "crypto/rand", "io/ioutil", "log", "math/rand", "net/http", "os", "plugin", "runtime", "syscall", "testing",
}

// plain are packages of other modules that hold values and functions on them, and nothing else.
var plain = []string{
	"go.yaml.in/yaml/v3", "gomodules.xyz/jsonpatch/v2", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/utils/ptr",
	"sigs.k8s.io/json", "sigs.k8s.io/structured-merge-diff/v6/fieldpath", "sigs.k8s.io/yaml",
}

// clockwork are the functions of package time that read a clock or wait.
var clockwork = map[string]bool{
	"After": true, "AfterFunc": true, "NewTicker": true, "NewTimer": true, "Now": true, "Since": true, "Sleep": true,
	"Tick": true, "Until": true,
}

// Impurities returns a sentence for each import or call by which a pure file of the tree reaches out of its values, and
// for each pattern that matches no file.
func Impurities(tree fs.FS, patterns []string) ([]string, error) {
	var problems []string
	for _, pattern := range patterns {
		names, err := fs.Glob(tree, pattern)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			problems = append(problems, pattern+" is listed as pure and does not exist")
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			found, err := impurities(tree, name)
			if err != nil {
				return nil, err
			}
			problems = append(problems, found...)
		}
	}
	return problems, nil
}

func impurities(tree fs.FS, name string) ([]string, error) {
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var problems []string
	clock := ""
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if imported == "time" {
			clock = localName(spec, imported)
		}
		if why := reaches(imported); why != "" {
			problems = append(problems, fmt.Sprintf("%s is pure and imports %s, which %s", name, imported, why))
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok || clock == "" || !clockwork[selector.Sel.Name] {
			return true
		}
		if of, ok := selector.X.(*ast.Ident); ok && of.Name == clock {
			problems = append(problems, fmt.Sprintf("%s is pure and uses time.%s; take the time as a value", name, selector.Sel.Name))
		}
		return true
	})
	return problems, nil
}

// reaches says in what way an imported package is more than values; empty if it is not.
func reaches(imported string) string {
	if _, ours := Room(imported); ours {
		return "" // Arrows looks at those
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		for _, p := range outside {
			if within(imported, p) {
				return "reaches out of the program"
			}
		}
		return ""
	}
	for _, p := range plain {
		if within(imported, p) {
			return ""
		}
	}
	return "is not known to hold plain values only"
}

// localName is the name that a file gives to an import.
func localName(spec *ast.ImportSpec, imported string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(imported)
}
