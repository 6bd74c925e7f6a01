package fetch

import (
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// branches is what a remote has.
type branches struct {
	// head is the short name of the branch that HEAD names, whether or not that
	// exists; "" if HEAD names none.
	head string
	// hashes is each branch's commit, by short name.
	hashes map[string]plumbing.Hash
	// others counts tags and other refs.
	others int
}

const branchPrefix = "refs/heads/"

// add files a ref by its full name.
func (b *branches) add(name string, hash plumbing.Hash) {
	short, ok := strings.CutPrefix(name, branchPrefix)
	if !ok {
		b.others++
		return
	}
	if b.hashes == nil {
		b.hashes = map[string]plumbing.Hash{}
	}
	b.hashes[short] = hash
}

// pick returns the head of the named branch, or of the one that HEAD names.
// It never guesses one: with a guess, a push of another branch would change
// what is applied.
func (b branches) pick(name, where string) (Head, error) {
	if len(b.hashes) == 0 && b.others == 0 {
		return Head{}, fail(RepositoryEmpty, "%s has no commits yet: push one", where)
	}
	if name == "" {
		if b.head == "" {
			return Head{}, fail(BranchNotFound, "HEAD of %s names no branch that exists: name the branch in ref.branch (%s)", where, b.names())
		}
		name = b.head
	}
	hash, ok := b.hashes[strings.TrimPrefix(name, branchPrefix)]
	if !ok {
		return Head{}, fail(BranchNotFound, "branch %q is not in %s: push it, or change ref.branch (%s)", name, where, b.names())
	}
	return Head{Branch: strings.TrimPrefix(name, branchPrefix), Hash: hash.String()}, nil
}

const maxNames = 5

func (b branches) names() string {
	names := make([]string, 0, len(b.hashes))
	for name := range b.hashes {
		names = append(names, name)
	}
	sort.Strings(names)
	switch {
	case len(names) == 0:
		return "there are none"
	case len(names) > maxNames:
		return "there are " + strings.Join(names[:maxNames], ", ") + " and more"
	default:
		return "there are " + strings.Join(names, ", ")
	}
}
