package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main is the TestMain of a package whose tests share one control plane: it starts it, hands it to ready, runs the
// tests, stops it and exits with their status. m is the *testing.M. SIGINT and SIGTERM stop it too.
// A first build takes longer than go test's own patience: run the command in cmd/controlplane with --build-only before.
func Main(m interface{ Run() int }, o Options, ready func(*ControlPlane)) {
	os.Exit(runTests(m, o, ready))
}

func runTests(m interface{ Run() int }, o Options, ready func(*ControlPlane)) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	plane, err := Start(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	result := make(chan int, 1)
	go func() {
		ready(plane)
		result <- m.Run()
	}()
	status := 1
	select {
	case status = <-result:
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr, "interrupted: stopping the control plane")
	}
	if err := plane.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}
