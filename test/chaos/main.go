package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/reservation-operator/reservation-operator/test/cluster"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// tally is what was done to the operator.
type tally struct{ kills, outages atomic.Int64 }

// trouble is one way to disturb the life of a cluster.
type trouble struct {
	name string
	// apiServer are flags of the API server.
	apiServer map[string]string
	// replicas returns the operators, and what is done during each chapter (which may be nil).
	replicas func(l *life, r *recorder, t *tally) ([]*replica, func(ctx context.Context, chapter int) error)
}

func main() {
	only := flag.String("only", "", "a comma-separated list of what to do: kills, outages, replicas")
	pause := flag.Duration("pause", time.Minute, "how long the API server stays away")
	flag.Parse()
	ctrl.SetLogger(logr.Discard()) // the clients' own
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var t tally
	violations, failed := 0, false
	for _, trouble := range []trouble{kills, outages(*pause), replicas} {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), trouble.name) {
			continue
		}
		began, before := time.Now(), t.kills.Load()+t.outages.Load()
		broken, err := live(ctx, trouble, &t)
		if err == nil && t.kills.Load()+t.outages.Load() == before {
			err = errors.New("nothing happened to the operator")
		}
		for _, b := range broken {
			fmt.Println("violation of", b)
		}
		violations += len(broken)
		if err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "chaos: %s: %s\n", trouble.name, err)
		}
		fmt.Printf("%s: %s\n", trouble.name, time.Since(began).Round(time.Second))
	}
	fmt.Printf("chaos kills=%d outages=%d violations=%d\n", t.kills.Load(), t.outages.Load(), violations)
	if failed || violations > 0 {
		os.Exit(1)
	}
}

// live plays the story once, disturbed, and returns what broke a law. An error says that the story did not come to its
// end, or that what happened is not known.
func live(ctx context.Context, t trouble, sum *tally) (broken []string, err error) {
	nodes := make([]*corev1.Node, 0, nodeCount)
	for _, name := range controlplane.NodeNames(nodeCount) {
		nodes = append(nodes, controlplane.Node(name, nil))
	}
	c, err := cluster.Start(ctx, cluster.Options{Nodes: nodes, APIServerArgs: t.apiServer})
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	l := &life{c}
	ctx, done := context.WithCancel(logr.NewContext(ctx, logr.Discard())) // a watch that breaks is what we came for
	defer done()
	r, err := record(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"alpha", "beta", stranger} {
		if err := l.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return nil, err
		}
	}
	operators, during := t.replicas(l, r, sum)
	running, end := context.WithCancel(ctx)
	defer end()
	type ending struct {
		crashes []string
		err     error
	}
	endings := make(chan ending, len(operators))
	for _, o := range operators {
		go func() {
			crashes, err := o.keep(running)
			if err != nil {
				end() // nothing comes of a story without it
			}
			endings <- ending{crashes, err}
		}()
	}
	go l.intrude(running)
	err = l.tell(running, t.name, during)
	end()
	for range operators {
		e := <-endings
		broken = append(broken, e.crashes...)
		if e.err != nil {
			err = e.err
		}
	}
	changes, writes, gap := r.all(ctx)
	fmt.Printf("%s: %d changes and %d writes are judged\n", t.name, len(changes), len(writes))
	broken = append(broken, judge(changes, writes)...)
	return broken, firstError(err, gap)
}

// tell plays the chapters, with what happens during each.
func (l *life) tell(ctx context.Context, title string, during func(ctx context.Context, chapter int) error) error {
	for i, c := range l.chapters() {
		began := time.Now()
		disturbed := make(chan error, 1)
		disturbing, over := context.WithCancel(ctx)
		go func() {
			if during == nil {
				disturbed <- nil
				return
			}
			disturbed <- during(disturbing, i)
		}()
		said := began
		until := func(ctx context.Context) error {
			err := c.until(ctx)
			if err != nil && time.Since(said) > time.Minute {
				said = time.Now()
				fmt.Printf("%s: %s: after %s %s\n", title, c.name, time.Since(began).Round(time.Second), err)
			}
			return err
		}
		err := c.do(ctx)
		if err == nil {
			err = l.await(ctx, until)
		}
		if err != nil {
			over() // nothing comes of it any more
		}
		err = firstError(err, <-disturbed)
		if over(); err == nil {
			err = l.await(ctx, c.until) // still
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("%s: %s: %s\n", title, c.name, time.Since(began).Round(100*time.Millisecond))
	}
	time.Sleep(2 * time.Second) // for what is written after the end
	return nil
}
