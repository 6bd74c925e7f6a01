package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// selfExplaining are methods that everybody knows from the standard library's interfaces.
var selfExplaining = map[string]bool{"Error": true, "Unwrap": true, "String": true}

// Undocumented returns a sentence for each package of the tree without a doc.go that has its comment, and for each
// exported name without one. Fields are asked for in api/ only, where comments become kubectl explain. A constant or
// variable may share its group's comment. Tests and generated files are left out.
func Undocumented(tree fs.FS) ([]string, error) {
	packages := map[string][]*ast.File{}
	names := map[*ast.File]string{}
	fset := token.NewFileSet()
	err := goFiles(tree, func(name string) error {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(name, "_test.go") && !ast.IsGenerated(file) {
			names[file] = name
			packages[path.Dir(name)] = append(packages[path.Dir(name)], file)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if problem := packageComment(dir, packages[dir], names); problem != "" {
			problems = append(problems, problem)
		}
		exported := exportedTypes(packages[dir])
		for _, file := range packages[dir] {
			for _, what := range undocumented(file, exported, within(dir, "api")) {
				problems = append(problems, fmt.Sprintf("%s: %s has no comment", names[file], what))
			}
		}
	}
	return problems, nil
}

// packageComment says what is wrong with a package's comment; empty if nothing is.
func packageComment(dir string, files []*ast.File, names map[*ast.File]string) string {
	for _, file := range files {
		base := path.Base(names[file])
		begin := "Package " + file.Name.Name + " "
		if file.Name.Name == "main" {
			begin = "Command " + path.Base(dir) + " "
			if base == "main.go" {
				base = "doc.go" // where a reader of a command looks first
			}
		}
		if base == "doc.go" && strings.HasPrefix(file.Doc.Text(), begin) {
			return ""
		}
	}
	return fmt.Sprintf("%s has no doc.go with a comment that begins with \"Package NAME \" or \"Command NAME \"", dir)
}

func exportedTypes(files []*ast.File) map[string]bool {
	exported := map[string]bool{}
	for _, file := range files {
		for _, decl := range file.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok || general.Tok != token.TYPE {
				continue
			}
			for _, spec := range general.Specs {
				if name := spec.(*ast.TypeSpec).Name; name.IsExported() {
					exported[name.Name] = true
				}
			}
		}
	}
	return exported
}

// undocumented returns the exported names of a file that have no comment.
func undocumented(file *ast.File, exported map[string]bool, fields bool) []string {
	var out []string
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if receiver := receiverOf(decl); decl.Name.IsExported() && decl.Doc == nil &&
				(receiver == "" || exported[receiver] && !selfExplaining[decl.Name.Name]) {
				out = append(out, strings.TrimPrefix(receiver+"."+decl.Name.Name, "."))
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				out = append(out, undocumentedSpec(decl, spec, fields)...)
			}
		}
	}
	return out
}

func undocumentedSpec(decl *ast.GenDecl, spec ast.Spec, fields bool) []string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		var out []string
		if spec.Name.IsExported() && decl.Doc == nil && spec.Doc == nil {
			out = append(out, spec.Name.Name)
		}
		if structure, ok := spec.Type.(*ast.StructType); ok && fields && spec.Name.IsExported() && !isList(spec.Name.Name) {
			for _, field := range structure.Fields.List {
				if len(field.Names) > 0 && field.Names[0].IsExported() && field.Doc == nil {
					out = append(out, spec.Name.Name+"."+field.Names[0].Name)
				}
			}
		}
		return out
	case *ast.ValueSpec:
		if spec.Names[0].IsExported() && decl.Doc == nil && spec.Doc == nil && spec.Comment == nil {
			return []string{spec.Names[0].Name}
		}
	}
	return nil
}

// isList reports whether a type is a list kind, whose fields are the same for all.
func isList(name string) bool { return strings.HasSuffix(name, "List") }

func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.Ident:
			return t.Name
		default:
			return "?"
		}
	}
}
