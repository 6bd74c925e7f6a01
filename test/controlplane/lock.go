package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock takes the lock that a file stands for, waiting for whoever holds it until ctx ends. The kernel gives it back
// when this process dies. The file stays: removing it would let two processes hold locks on two files of one name.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	for {
		unlock, err := tryLock(path)
		if unlock != nil || err != nil {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w", path, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// tryLock is lock without waiting: both results are nil when somebody else holds it.
func tryLock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case err == nil:
		return func() { _ = file.Close() }, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, file.Close()
	default:
		_ = file.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
}
