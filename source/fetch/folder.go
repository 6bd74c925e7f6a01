package fetch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// folderPrefix begins the name of every folder that holds a commit's files.
const folderPrefix = "reservation-source-"

// Sweep removes the files of commits that processes left behind which were
// killed: in the folder for temporary files, what has this package's prefix and
// is in nobody's hands. It is for the start of a process; the files of others
// that run, and of this one, stay. It goes on after an error, and does nothing
// where the kernel cannot tell whether a folder is in use.
func Sweep() error {
	entries, err := os.ReadDir(os.TempDir())
	errs := []error{err}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), folderPrefix) {
			errs = append(errs, sweep(filepath.Join(os.TempDir(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

func sweep(folder string) error {
	f, err := os.Open(folder)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // gone meanwhile, or another user's
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if lock(f) != lockTaken {
		return nil
	}
	return os.RemoveAll(folder)
}

// makeFolder makes a folder for a commit's files. It is in use for as long as
// hold is open, or this process lives.
func makeFolder() (name string, hold *os.File, err error) {
	const attempts = 10 // a sweep can take a folder only between its making and its lock
	for range attempts {
		if name, err = os.MkdirTemp("", folderPrefix+"*"); err != nil {
			return "", nil, err
		}
		hold, err = os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, errors.Join(err, os.Remove(name))
		}
		if lock(hold) != lockHeld && isAt(hold, name) {
			return name, hold, nil
		}
		hold.Close()
	}
	return "", nil, errors.New("the folders for temporary files are removed by somebody else")
}

// isAt reports whether an open folder is still the one of that name.
func isAt(f *os.File, name string) bool {
	here, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(here, there)
}

// lockState is what came of an attempt to lock.
type lockState int

const (
	// lockTaken: it is ours until the file is closed.
	lockTaken lockState = iota
	// lockHeld: somebody else has it.
	lockHeld
	// lockUnknown: there are no such locks here.
	lockUnknown
)
