//go:build unix

package fetch

import (
	"errors"
	"os"
	"syscall"
)

// lock tries to lock an open folder. The kernel gives the lock back when the
// folder is closed or the process dies, however it does.
func lock(f *os.File) lockState {
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case err == nil:
		return lockTaken
	case errors.Is(err, syscall.EWOULDBLOCK):
		return lockHeld
	}
	return lockUnknown
}
