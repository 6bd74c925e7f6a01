package controlplane

import (
	"os/exec"
	"runtime"
)

// launcher starts processes that the kernel ends when this process dies (see parentDeath). On Linux the signal comes
// when the thread that started the child ends, not the process, and Go ends threads as it likes. So every start
// happens on one thread that is kept for as long as the launcher is open.
type launcher struct {
	starts chan request
}

type request struct {
	cmd    *exec.Cmd
	result chan error
}

func newLauncher() *launcher {
	l := &launcher{starts: make(chan request)}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for r := range l.starts {
			r.cmd.SysProcAttr = parentDeath()
			r.result <- r.cmd.Start()
		}
	}()
	return l
}

// start starts a command. It must not be called after close.
func (l *launcher) start(cmd *exec.Cmd) error {
	r := request{cmd: cmd, result: make(chan error)}
	l.starts <- r
	return <-r.result
}

// close ends the thread and thereby, on Linux, whatever it started and still runs.
func (l *launcher) close() { close(l.starts) }
