package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// checkout writes a commit's files to a fresh folder.
func checkout(ctx context.Context, objects storer.EncodedObjectStorer, head Head, l Limits, where string) (*Commit, error) {
	// A fetch can end well and still lack the commit, when the branch was forced
	// elsewhere and the server has thrown the commit away.
	found, err := object.GetCommit(objects, plumbing.NewHash(head.Hash))
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, fail(FetchFailed, "%s did not send commit %s of branch %q, which may have moved meanwhile", where, head.Hash, head.Branch)
	}
	if err != nil {
		return nil, fmt.Errorf("reading commit %s: %w", head.Hash, err)
	}
	commit := describe(found, head)
	if commit.folder, commit.hold, err = makeFolder(); err != nil {
		return nil, err
	}
	w := writer{ctx: ctx, objects: objects, limits: l, where: where}
	if commit.root, err = os.OpenRoot(commit.folder); err == nil {
		w.root = commit.root
		err = w.folder(found.TreeHash, "", 0)
	}
	if err != nil {
		commit.Close()
		return nil, err
	}
	commit.Tree = commit.root.FS()
	return commit, nil
}

// writer writes trees and blobs below root, which nothing that it writes can
// lead out of.
type writer struct {
	ctx     context.Context
	root    *os.Root
	objects storer.EncodedObjectStorer
	limits  Limits
	where   string

	files int
	bytes int64
}

func (w *writer) folder(hash plumbing.Hash, name string, depth int) error {
	if depth > maxDepth {
		return tooDeep(w.where)
	}
	tree, err := object.GetTree(w.objects, hash)
	if err != nil {
		return fmt.Errorf("reading folder %q: %w", name, err)
	}
	for _, entry := range tree.Entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if w.files++; w.files > w.limits.Files {
			return tooManyFiles(w.limits, w.where)
		}
		if forbidden(entry.Name) {
			e := fail(FetchFailed, "the commit from %s has an entry named %q in folder %q, which Git forbids", w.where, entry.Name, name)
			e.Stalled = true
			return e
		}
		if err := w.entry(entry, strings.TrimPrefix(name+"/"+entry.Name, "/"), depth); err != nil {
			return err
		}
	}
	return nil
}

// forbidden are names that git's own check refuses in a tree.
func forbidden(name string) bool {
	return name == "" || name == "." || name == ".." || strings.EqualFold(name, ".git") || strings.ContainsAny(name, "/\x00")
}

func (w *writer) entry(entry object.TreeEntry, name string, depth int) error {
	switch entry.Mode {
	case filemode.Dir:
		if err := w.root.Mkdir(name, 0o700); err != nil {
			return err
		}
		return w.folder(entry.Hash, name, depth+1)
	case filemode.Submodule:
		// Its commit is another repository's: an empty folder, as after a clone
		// that does not recurse.
		return w.root.Mkdir(name, 0o700)
	}
	size, err := w.objects.EncodedObjectSize(entry.Hash)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if size > w.limits.FileBytes {
		return fileTooLarge(w.limits, name, w.where)
	}
	if w.bytes += size; w.bytes > w.limits.Bytes {
		return tooManyBytes(w.limits, w.where)
	}
	return w.blob(entry, name)
}

func (w *writer) blob(entry object.TreeEntry, name string) error {
	blob, err := object.GetBlob(w.objects, entry.Hash)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	content, err := blob.Reader()
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	defer content.Close()
	if entry.Mode == filemode.Symlink {
		target, err := io.ReadAll(content)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if err := w.root.Symlink(string(target), name); err != nil {
			// The system's error quotes the target.
			return fmt.Errorf("writing the symbolic link %s", name)
		}
		return nil
	}
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
