package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
)

// MaxLines is the most lines of a Go file; a longer one usually holds two ideas.
const MaxLines = 500

// Oversized returns a sentence for each Go file of the tree with more than MaxLines lines. Generated files are left out.
func Oversized(tree fs.FS) ([]string, error) {
	var problems []string
	err := goFiles(tree, func(name string) error {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if lines := bytes.Count(text, []byte("\n")); lines > MaxLines && !ast.IsGenerated(file) {
			problems = append(problems, fmt.Sprintf("%s has %d lines, more than %d", name, lines, MaxLines))
		}
		return nil
	})
	return problems, err
}
