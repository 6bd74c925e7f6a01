package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// benchmark measures one or a few related figures on a cluster of its own.
type benchmark struct {
	name string
	run  func(ctx context.Context) error
}

func main() {
	only := flag.String("only", "", "a comma-separated list of benchmarks to run: lock, push, release, admission, bind, most, storm, change")
	flag.Parse()
	ctrl.SetLogger(logr.Discard()) // the clients' own
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, b := range []benchmark{{"lock", lock}, {"push", push}, {"release", release}, {"admission", admission}, {"bind", bind}, {"most", lockMost}, {"storm", storm}, {"change", change}} {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), b.name) {
			continue
		}
		if err := b.run(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %s\n", b.name, err)
			os.Exit(1)
		}
	}
}

// figure prints one line. Met says whether the goal was reached.
func figure(name, ours, baseline string, ratio float64, goal string, met bool) {
	fmt.Printf("figure %s ours=%s baseline=%s ratio=%.2f goal=%s%s\n", name, ours, baseline, ratio, goal, missed(met))
}

func missed(met bool) string {
	if met {
		return ""
	}
	return " (missed)"
}

// median returns the middle of the durations; it sorts them.
func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
