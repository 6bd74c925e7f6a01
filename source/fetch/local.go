package fetch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// local is a repository in a folder, bare or with a work tree. It is read in
// place, without a git binary, which the operator's image does not have.
type local struct {
	address    address
	repository *git.Repository
}

func (l *local) where() string { return l.address.shown }

func (l *local) branches(ctx context.Context) (branches, error) {
	if err := l.open(); err != nil {
		return branches{}, err
	}
	var b branches
	refs, err := l.repository.References()
	if err != nil {
		return branches{}, err
	}
	err = refs.ForEach(func(ref *plumbing.Reference) error {
		if ref.Type() == plumbing.HashReference && ref.Name() != plumbing.HEAD {
			b.add(ref.Name().String(), ref.Hash())
		}
		return ctx.Err()
	})
	if err != nil {
		return branches{}, err
	}
	head, err := l.repository.Reference(plumbing.HEAD, false)
	if err == nil && head.Target().IsBranch() {
		b.head = head.Target().Short()
	}
	return b, nil
}

func (l *local) open() error {
	path := l.address.path
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return fail(RepositoryNotFound, "the folder %s does not exist: check the URL, and that it is mounted where the operator runs", path)
	case err != nil:
		return fail(RepositoryUnreachable, "the folder %s cannot be read: %v", path, err)
	case !info.IsDir():
		return fail(RepositoryNotFound, "%s is a file, not a Git repository: check the URL", path)
	}
	repository, err := git.PlainOpenWithOptions(path, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return fail(RepositoryNotFound, "the folder %s is not a Git repository: check the URL", path)
	}
	if err != nil {
		return l.unsupported(err)
	}
	l.repository = repository
	return nil
}

// unsupported gives the reason why go-git does not open a repository.
func (l *local) unsupported(err error) error {
	text, _ := os.ReadFile(l.address.path + "/config")
	if text == nil {
		text, _ = os.ReadFile(l.address.path + "/.git/config")
	}
	settings := config.NewConfig()
	if settings.Unmarshal(text) == nil && settings.Raw.Section("extensions").Option("objectformat") == "sha256" {
		return unsupportedFormat(l.address.path)
	}
	return fail(FetchFailed, "the repository %s cannot be opened: %v", l.address.path, err)
}

func (l *local) objects(context.Context, plumbing.Hash, Limits) (storer.EncodedObjectStorer, error) {
	return l.repository.Storer, nil
}

func (l *local) close() {
	if l.repository == nil {
		return
	}
	// The storage keeps packs open.
	if closer, ok := l.repository.Storer.(io.Closer); ok {
		closer.Close()
	}
}
