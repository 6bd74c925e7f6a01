package render

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrPathNotFound says that the folder to render is not in the commit. It is an
// error of the source, not an empty result: a caller must never prune on it.
var ErrPathNotFound = errors.New("is not a folder of the commit")

// Render renders the folder name of tree ("" or "." is the root).
//
// Objects come in the order of a walk through the folder by name, those of one
// file in the order in which they are written, those of one kustomization
// together and in kustomize's order. Findings are all problems, in order of
// file and line; when [Rejected] says so, the commit must be refused and the
// objects may be incomplete. Both may be empty. The error is for what is not
// the commit's fault: ctx done, a failing read, an [ErrPathNotFound] or an
// [ErrBusy].
//
// Render reads only tree and mutates nothing. It is safe for concurrent use;
// kustomize builds of the whole process run one at a time.
func Render(ctx context.Context, tree fs.FS, name string, l Limits) ([]Object, []Finding, error) {
	r := newRenderer(tree, l)
	real, info, err := r.tree.resolve(name)
	switch {
	case explained(err):
		return nil, nil, fmt.Errorf("path %q: %w: it %w", name, ErrPathNotFound, err)
	case err != nil:
		return nil, nil, fmt.Errorf("reading path %q: %w", name, err)
	case !info.IsDir():
		return nil, nil, fmt.Errorf("path %q: %w: it is a file", name, ErrPathNotFound)
	}
	err = r.folder(ctx, path.Clean(strings.Trim(name, "/")), real)
	if err == nil {
		err = r.unlisted()
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, nil, err
	}
	return r.objects, inOrder(r.findings), nil
}

// errEnough ends a rendering that has passed a limit and reported it.
var errEnough = errors.New("limit passed")

// renderer is one rendering.
type renderer struct {
	tree     tree
	limits   Limits
	objects  []Object
	findings []Finding
	spent    int
	// stack are the folders being walked, without links; loading those of the
	// kustomizations being loaded.
	stack, loading []string

	// kustomizations and files are what was read for kustomize, by their paths
	// without links, and memory is where they were put.
	kustomizations map[string]*kustomization
	files          map[memoryKey]*memoryFile
	memory         memory
	// used are the files that some kustomization takes in; shown are the names
	// of the commit for those in memory.
	used  map[string]bool
	shown map[string]string
}

func newRenderer(fsys fs.FS, l Limits) *renderer {
	l = l.withDefaults()
	return &renderer{
		tree: tree{fsys: fsys, limits: l}, limits: l,
		kustomizations: map[string]*kustomization{}, files: map[memoryKey]*memoryFile{}, memory: newMemory(),
		used: map[string]bool{}, shown: map[string]string{},
	}
}

func (r *renderer) report(file string, line int, format string, args ...any) {
	r.findings = append(r.findings, Finding{File: tidy(file), Line: line, Message: tidy(fmt.Sprintf(format, args...))})
}

// add takes over the objects of one file or kustomization.
func (r *renderer) add(objects []Object) error {
	r.objects = append(r.objects, objects...)
	if len(r.objects) > r.limits.Objects {
		r.report(r.objects[r.limits.Objects].File, 0, "is where the commit has more than %d objects", r.limits.Objects)
		return errEnough
	}
	return nil
}

// folder renders one folder: shown is its path as it was reached, real the same
// without links.
func (r *renderer) folder(ctx context.Context, shown, real string) error {
	if slices.Contains(r.stack, real) {
		r.report(shown, 0, "%v", errLoops)
		return nil
	}
	if len(r.stack) >= r.limits.Depth {
		r.report(shown, 0, "is nested deeper than %d folders", r.limits.Depth)
		return nil
	}
	r.stack = append(r.stack, real)
	defer func() { r.stack = r.stack[:len(r.stack)-1] }()

	entries, err := fs.ReadDir(r.tree.fsys, real)
	if err != nil {
		return fmt.Errorf("reading %s: %w", shown, err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return isKustomizationName(e.Name()) }) {
		return r.kustomize(ctx, shown, real)
	}
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.entry(ctx, path.Join(shown, entry.Name()), path.Join(real, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// entry renders what a folder without a kustomization holds.
func (r *renderer) entry(ctx context.Context, shown, name string) error {
	if strings.HasPrefix(path.Base(name), ".") {
		return nil
	}
	if !utf8.ValidString(name) {
		r.report(shown, 0, "has a name that is not UTF-8: rename it")
		return nil
	}
	real, info, err := r.tree.resolve(name)
	switch {
	case explained(err):
		r.report(shown, 0, "%v", err)
		return nil
	case err != nil:
		return fmt.Errorf("reading %s: %w", shown, err)
	case info.IsDir():
		return r.folder(ctx, shown, real)
	case isYAML(shown):
		return r.file(shown, real)
	}
	return nil
}

// file renders a file of plain YAML.
func (r *renderer) file(shown, real string) error {
	data, ok, err := r.read(place{file: shown}, shown, real)
	if !ok {
		return err
	}
	d := r.decoder(shown)
	objects := d.objects(data)
	r.findings = append(r.findings, d.findings...)
	return r.add(objects)
}

func (r *renderer) decoder(file string) *decoder {
	return &decoder{file: file, limits: r.limits, spent: &r.spent}
}

// read returns a file's content. If that is not to be had and the commit's
// fault, it is reported at the place where the file was asked for.
func (r *renderer) read(at place, shown, real string) (data []byte, ok bool, err error) {
	data, err = r.tree.read(real)
	var large *tooLarge
	switch {
	case errors.As(err, &large):
		message := large.message
		if at.file != shown {
			message = shown + " " + message
		}
		r.report(at.file, at.line, "%s", message)
		return nil, false, errEnough
	case err != nil:
		return nil, false, fmt.Errorf("reading %s: %w", shown, err)
	}
	return data, true, nil
}

func isYAML(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
