package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// markedRooms are the rooms whose +kubebuilder:rbac markers make the operator's roles.
var markedRooms = []string{"reconciler", "webhook", "cmd"}

// generators are what make generate and make manifests run, by the folder that the files are for.
func generators() map[string][]string {
	var rooms []string
	for _, room := range markedRooms {
		if _, err := os.Stat(filepath.Join(Root(), room)); err == nil {
			rooms = append(rooms, "./"+room+"/...")
		}
	}
	return map[string][]string{
		"api/v1alpha1": {"object", "paths=./api/..."},
		"config/crd":   {"crd", "paths=./api/..."},
		"config/rbac":  {"rbac:roleName=reservation-operator", "paths=" + strings.Join(rooms, ";")},
	}
}

// Generate writes everything that is generated below a folder, in the same places as in the repository. It takes the
// tools from the module cache and blocks for some seconds.
func Generate(dir string) error {
	for folder, args := range generators() {
		out := filepath.Join(dir, filepath.FromSlash(folder))
		if err := os.MkdirAll(out, 0o755); err != nil {
			return err
		}
		generator, _, _ := strings.Cut(args[0], ":")
		args := append([]string{"tool", "-modfile=test/tools/go.mod", "controller-gen"}, args...)
		cmd := exec.Command("go", append(args, "output:"+generator+":dir="+out)...)
		cmd.Dir = Root()
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("generating %s: %w\n%s", folder, err, text)
		}
	}
	return nil
}

// Outdated returns a sentence for each generated file that is not in the tree as it should be. A file of the tree that
// would not be generated any more is not seen.
func Outdated(tree, generated fs.FS) ([]string, error) {
	var problems []string
	err := fs.WalkDir(generated, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		want, err := fs.ReadFile(generated, name)
		if err != nil {
			return err
		}
		if got, err := fs.ReadFile(tree, name); err != nil || !bytes.Equal(got, want) {
			problems = append(problems, name+" is out of date; run make generate manifests")
		}
		return nil
	})
	return problems, err
}

// DeafMarkers returns a sentence for each +kubebuilder:rbac marker in the tree that controller-gen does not hear: one in
// the comment of a declaration, where it is taken for a word about that declaration.
func DeafMarkers(tree fs.FS) ([]string, error) {
	var problems []string
	err := goFiles(tree, func(name string) error {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			for _, doc := range docsOf(decl) {
				for _, line := range doc.List {
					if strings.HasPrefix(line.Text, "// +kubebuilder:rbac") {
						problems = append(problems, fmt.Sprintf("%s:%d: this marker is not heard; leave an empty line below it",
							name, fset.Position(line.Pos()).Line))
					}
				}
			}
		}
		return nil
	})
	return problems, err
}

// docsOf returns the comments that belong to a declaration or to what it declares.
func docsOf(decl ast.Decl) []*ast.CommentGroup {
	var docs []*ast.CommentGroup
	ast.Inspect(decl, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GenDecl:
			docs = append(docs, node.Doc)
		case *ast.FuncDecl:
			docs = append(docs, node.Doc)
		case *ast.TypeSpec:
			docs = append(docs, node.Doc)
		case *ast.ValueSpec:
			docs = append(docs, node.Doc)
		case *ast.Field:
			docs = append(docs, node.Doc)
		}
		return true
	})
	var present []*ast.CommentGroup
	for _, doc := range docs {
		if doc != nil {
			present = append(present, doc)
		}
	}
	return present
}

// Unmarked returns a sentence for each marker in the tree outside of the rooms that are searched for markers.
func Unmarked(tree fs.FS) ([]string, error) {
	var problems []string
	err := goFiles(tree, func(name string) error {
		room, _, _ := strings.Cut(name, "/")
		for _, marked := range append(markedRooms, "test") {
			if room == marked {
				return nil
			}
		}
		text, err := fs.ReadFile(tree, name)
		if err == nil && bytes.Contains(text, []byte("// +kubebuilder:rbac")) {
			problems = append(problems, fmt.Sprintf("%s has a marker for roles, but %s is not searched for them", name, path.Dir(name)))
		}
		return err
	})
	return problems, err
}
