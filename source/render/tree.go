package render

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Why a path in the commit leads nowhere. Their texts go into findings, behind
// the path as it was asked for: where a link points to is never told.
var (
	errEscapes = errors.New("is a symbolic link that leads out of the repository")
	errLoops   = errors.New("is a symbolic link that leads back to itself")
	errDangles = errors.New("is a symbolic link to something that is not in the repository")
	errAbove   = errors.New("is above the repository's root")
	errMissing = errors.New("does not exist")
)

// maxLinks is how many links one path may go through, as in Linux.
const maxLinks = 40

// tree is the commit's files. Links are followed here, not by the file system
// below, which knows less about what they may lead to.
type tree struct {
	fsys   fs.FS
	limits Limits
	// files and bytes count what was read.
	files int
	bytes int64
}

// resolve follows the links in a slash path and returns the path without links
// and what is there. An error that is not one of the above is a failed read.
func (t *tree) resolve(name string) (string, fs.FileInfo, error) {
	done, links := ".", 0
	todo := strings.Split(name, "/")
	missing := errMissing
	for len(todo) > 0 {
		word := todo[0]
		todo = todo[1:]
		switch word {
		case "", ".":
			continue
		case "..":
			if done == "." {
				if links > 0 {
					return "", nil, errEscapes
				}
				return "", nil, errAbove
			}
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, word)
		target, isLink, err := t.link(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid), isNotDir(err):
			return "", nil, missing
		case err != nil:
			return "", nil, err
		case !isLink:
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil, errLoops
		}
		if path.IsAbs(target) {
			return "", nil, errEscapes
		}
		missing = errDangles
		todo = append(strings.Split(target, "/"), todo...)
	}
	info, err := fs.Lstat(t.fsys, done)
	return done, info, err
}

// link returns the target if the name, whose parents are no links, is one.
func (t *tree) link(name string) (string, bool, error) {
	info, err := fs.Lstat(t.fsys, name)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", false, err
	}
	target, err := fs.ReadLink(t.fsys, name)
	return target, true, err
}

// isNotDir recognises a path that goes on below a file. Each file system has
// its own error for it.
func isNotDir(err error) bool {
	return err != nil && strings.Contains(err.Error(), "not a directory")
}

// explained says whether an error of resolve is the commit's fault.
func explained(err error) bool {
	for _, known := range []error{errEscapes, errLoops, errDangles, errAbove, errMissing} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// tooLarge is a limit that was passed.
type tooLarge struct{ message string }

func (e *tooLarge) Error() string { return e.message }

// read returns the content of a file, by its path without links. Passing a
// limit is a *tooLarge.
func (t *tree) read(name string) ([]byte, error) {
	if t.files++; t.files > t.limits.Files {
		return nil, &tooLarge{fmt.Sprintf("is one file too many: at most %d are rendered", t.limits.Files)}
	}
	f, err := t.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, t.limits.FileBytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > t.limits.FileBytes {
		return nil, &tooLarge{fmt.Sprintf("is larger than %d KiB", t.limits.FileBytes>>10)}
	}
	if t.bytes += int64(len(data)); t.bytes > t.limits.Bytes {
		return nil, &tooLarge{fmt.Sprintf("is one file too many: at most %d MiB are rendered", t.limits.Bytes>>20)}
	}
	return data, nil
}
