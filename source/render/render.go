package render

import (
	"context"
	"errors"
	"io/fs"
)

// ErrPathNotFound says that the folder to render is not in the commit. It is an
// error of the source, not an empty result: a caller must never prune on it.
var ErrPathNotFound = errors.New("path not found in the commit")

// Limits bound what one rendering may cost. A zero field means its default.
type Limits struct {
	// Files is the most YAML and JSON files that are read.
	Files int
	// Bytes is the most bytes of those files together, and of what kustomize
	// makes of them.
	Bytes int64
	// FileBytes is the most bytes of any one of them.
	FileBytes int64
	// Objects is the most objects in the result.
	Objects int
	// Nodes is the most YAML nodes of one document with its aliases expanded.
	Nodes int
	// Depth is how deep folders, kustomizations and YAML may nest.
	Depth int
}

// DefaultLimits are 5,000 files, 32 MiB in all, 1 MiB for one file, 10,000
// objects, 100,000 nodes in one document and a depth of 64.
func DefaultLimits() Limits {
	return Limits{Files: 5_000, Bytes: 32 << 20, FileBytes: 1 << 20, Objects: 10_000, Nodes: 100_000, Depth: 64}
}

// Render renders the folder path of tree ("" or "." is the root).
//
// Objects come in order of file and of document in it, those of one
// kustomization together and in kustomize's order. Findings are all problems,
// in order of file and line; when [Rejected] says so, the commit must be
// refused and the objects may be incomplete. The error is for what is not the
// commit's fault: ctx done, a failing read, or an [ErrPathNotFound].
//
// Render reads only tree and mutates nothing. It is safe for concurrent use;
// kustomize builds of the whole process run one at a time.
func Render(ctx context.Context, tree fs.FS, path string, l Limits) ([]Object, []Finding, error) {
	return nil, nil, errors.New("not built yet")
}
