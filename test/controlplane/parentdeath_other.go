//go:build !linux

package controlplane

import "syscall"

// parentDeath has no help from these kernels: a child stays when this process is killed before Stop. In the same
// process group it at least gets a terminal's Ctrl-C.
func parentDeath() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
