package house

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// Module is the path of this repository's module.
const Module = "github.com/reservation-operator/reservation-operator"

// Root returns the repository's root folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Package is what a rule needs to know of a Go package.
type Package struct {
	// ImportPath is the package's path; Imports are those of its files without tests.
	ImportPath string
	Imports    []string
}

// Room returns the package's path inside this module ("source/fetch"), and false for other modules' packages.
func Room(importPath string) (string, bool) {
	if importPath == Module {
		return "", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}

// Packages returns every package of the module, in the order of their paths.
func Packages() ([]Package, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports", "./...")
	cmd.Dir = Root()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("go list: %w\n%s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []Package
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// goFiles calls f with each Go file of a tree, tests included, but not of hidden folders, testdata and nested modules.
func goFiles(tree fs.FS, f func(name string) error) error {
	return fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			if strings.HasSuffix(name, ".go") {
				return f(name)
			}
			return nil
		case name == ".":
			return nil
		case strings.HasPrefix(entry.Name(), "."), entry.Name() == "testdata":
			return fs.SkipDir
		}
		if _, err := fs.Stat(tree, path.Join(name, "go.mod")); err == nil {
			return fs.SkipDir
		}
		return nil
	})
}
