package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	var options Options
	fs := pflag.NewFlagSet("reservation-operator", pflag.ContinueOnError)
	options.BindFlags(fs)
	if err := fs.Parse(os.Args[1:]); errors.Is(err, pflag.ErrHelp) {
		return
	} else if err != nil {
		exit(2, err)
	}
	if fs.NArg() > 0 {
		exit(2, fmt.Errorf("%q is no flag: every option begins with --; see --help", fs.Arg(0)))
	}
	if err := options.Validate(); err != nil {
		exit(2, err)
	}
	logger.SetLogger(logger.NewLogger(options.Logger))
	if err := run(ctrl.SetupSignalHandler(), options); err != nil && !errors.Is(err, context.Canceled) {
		ctrl.Log.Error(err, "the operator stops")
		os.Exit(1)
	}
}

// run serves until the context ends. An error means that it could not start or lost its lease.
func run(ctx context.Context, options Options) error {
	config, err := options.Client.Config()
	if err != nil {
		return err
	}
	before, err := newPreflight(config, options)
	if err != nil {
		return err
	}
	if err := before.await(ctx); err != nil {
		return err
	}
	mgr, err := newManager(ctx, config, options)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func exit(code int, err error) {
	fmt.Fprintln(os.Stderr, "reservation-operator:", err)
	os.Exit(code)
}
