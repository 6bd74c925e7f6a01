package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Where reasons are listed and explained, and where fetch, which knows nothing of conditions, names its own.
const (
	reasonsFile      = "api/v1alpha1/reasons.go"
	reasonsPage      = "docs/reference/reasons.md"
	fetchReasonsFile = "source/fetch/errors.go"
)

// explained matches the row of a table that explains a reason.
var explained = regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|")

// Reasons returns a sentence for each reason that is not at once in the list, on its page and in use. A reason is in use
// where a file that is no test names its constant, or where fetch has a constant of the same value.
func Reasons(tree fs.FS) ([]string, error) {
	listed, err := stringConstants(tree, reasonsFile)
	if err != nil {
		return nil, err
	}
	used, err := namesUsed(tree)
	if err != nil {
		return nil, err
	}
	fetched := map[string]string{}
	if _, err := fs.Stat(tree, fetchReasonsFile); err == nil {
		if fetched, err = stringConstants(tree, fetchReasonsFile); err != nil {
			return nil, err
		}
	}
	page, err := fs.ReadFile(tree, reasonsPage)
	if err != nil {
		return nil, err
	}
	rows := map[string]int{}
	for _, row := range explained.FindAllStringSubmatch(string(page), -1) {
		rows[row[1]]++
	}

	var problems []string
	values := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		value := listed[name]
		values[value] = true
		if name != "Reason"+value {
			problems = append(problems, fmt.Sprintf("%s has the value %q; the two must be alike", name, value))
		}
		if !used[name] && fetched[value] != value {
			problems = append(problems, fmt.Sprintf("%s is listed and never used", name))
		}
		if rows[value] != 1 {
			problems = append(problems, fmt.Sprintf("%s stands in %d rows of %s, not in one", value, rows[value], reasonsPage))
		}
	}
	for _, value := range slices.Sorted(maps.Keys(rows)) {
		if !values[value] {
			problems = append(problems, fmt.Sprintf("%s is explained in %s and not listed in %s", value, reasonsPage, reasonsFile))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fetched)) {
		if !values[fetched[name]] {
			problems = append(problems, fmt.Sprintf("%s of %s is not listed in %s", name, fetchReasonsFile, reasonsFile))
		}
	}
	return problems, nil
}

// stringConstants returns the exported constants of a file that are strings, by name.
func stringConstants(tree fs.FS, name string) (map[string]string, error) {
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	constants := map[string]string{}
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.CONST {
			continue
		}
		for _, spec := range general.Specs {
			spec := spec.(*ast.ValueSpec)
			for i, name := range spec.Names {
				if literal, ok := valueAt(spec, i).(*ast.BasicLit); ok && literal.Kind == token.STRING && name.IsExported() {
					if constants[name.Name], err = strconv.Unquote(literal.Value); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return constants, nil
}

func valueAt(spec *ast.ValueSpec, i int) ast.Expr {
	if i < len(spec.Values) {
		return spec.Values[i]
	}
	return nil
}

// namesUsed returns every name of the form Reason… that a file outside of the API and of tests uses.
func namesUsed(tree fs.FS) (map[string]bool, error) {
	used := map[string]bool{}
	err := goFiles(tree, func(name string) error {
		if strings.HasSuffix(name, "_test.go") || path.Dir(name) == path.Dir(reasonsFile) || within(name, "test") {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && strings.HasPrefix(selector.Sel.Name, "Reason") {
				used[selector.Sel.Name] = true
			}
			return true
		})
		return nil
	})
	return used, err
}
