package controlplane

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

const (
	temporaryPattern = "controlplane-*"
	inUse            = "in-use" // in a temporary folder: a file that its user's process holds a lock on
)

// temporaryDir makes a folder for one control plane, after removing those whose processes were killed before Stop.
// Release gives up the claim on the folder; removing it is the caller's business.
func temporaryDir() (dir string, release func(), err error) {
	if err := removeAbandoned(); err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp("", temporaryPattern); err != nil {
		return "", nil, err
	}
	// Locked first and named last, so that nobody finds it without its lock.
	unnamed := filepath.Join(dir, inUse+".new")
	if release, err = tryLock(unnamed); err == nil {
		err = os.Rename(unnamed, filepath.Join(dir, inUse))
	}
	return dir, release, err
}

func removeAbandoned() error {
	marks, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPattern, inUse))
	if err != nil {
		return err
	}
	for _, mark := range marks {
		file, err := os.OpenFile(mark, os.O_RDWR, 0)
		if err != nil {
			continue // another user's, or being removed
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			err = os.RemoveAll(filepath.Dir(mark))
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}
