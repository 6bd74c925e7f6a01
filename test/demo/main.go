package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/reservation-operator/reservation-operator/test/cluster"
)

func main() {
	once := flag.Bool("once", false, "exit after the story instead of staying up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := play(ctx, *once)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// play starts everything, tells the story, and reports how many of its steps did not come true.
func play(ctx context.Context, once bool) (failed int, err error) {
	fmt.Println("Starting a control plane (etcd, kube-apiserver, kube-scheduler, kube-controller-manager) with 14 nodes …")
	c, err := cluster.Start(ctx, cluster.Options{Nodes: cluster.PageNodes()})
	if err != nil {
		return 0, err
	}
	defer func() {
		if stopErr := c.Stop(); err == nil {
			err = stopErr
		}
	}()
	fmt.Println("Building and starting the operator …")
	if err := c.Operator.Start(ctx); err != nil {
		return 0, err
	}
	repository, err := cluster.NewRepository(c.Dir, cluster.Root("tenants-example"))
	if err != nil {
		return 0, err
	}
	s := &story{cluster: c, repository: repository, out: os.Stdout}
	s.tell(ctx)
	if ctx.Err() == nil && !once {
		stayUp(ctx, c, repository)
	}
	fmt.Printf("demo steps=%d failed=%d\n", s.steps, s.failed)
	return s.failed, nil
}

func stayUp(ctx context.Context, c *cluster.Cluster, r *cluster.Repository) {
	fmt.Printf(`
Everything stays up until Ctrl-C. In another terminal:

  export KUBECONFIG=%s
  alias kubectl=%s
  cd %s

Change a file below tenants/, git commit, git push, and watch: kubectl get reservations,nodes -L reserved.tenant
The operator's log is %s
`, c.Kubeconfig, c.KubectlPath(), r.Work, filepath.Join(c.Dir, "operator.log"))
	<-ctx.Done()
	fmt.Println("\nStopping …")
}
