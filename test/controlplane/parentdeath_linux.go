package controlplane

import "syscall"

// parentDeath makes the kernel kill a child when the thread that started it ends. Its own process group keeps it from
// getting a terminal's Ctrl-C, which is for this process to act on.
func parentDeath() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
