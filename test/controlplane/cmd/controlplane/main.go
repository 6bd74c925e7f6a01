// Command controlplane keeps a Kubernetes control plane with GPU nodes running until it is interrupted, and prints how
// to talk to it.
//
//	go run ./test/controlplane/cmd/controlplane            # 14 nodes
//	go run ./test/controlplane/cmd/controlplane --build-only
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// rackSize is how many nodes are in the first rack; the others are in the second.
const rackSize = 8

func main() {
	nodes := pflag.Int("nodes", 14, "how many GPU nodes to register")
	dir := pflag.String("dir", "", "where to keep data and logs (default: a temporary folder)")
	buildOnly := pflag.Bool("build-only", false, "build the components into the cache, print their folder, start nothing")
	pflag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *nodes, *dir, *buildOnly); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nodes int, dir string, buildOnly bool) error {
	if buildOnly {
		binaries, err := controlplane.Build(ctx, nil)
		if err != nil {
			return err
		}
		fmt.Println(binaries.Dir)
		return nil
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Dir: dir, Scheduler: true, ControllerManager: true, Kubelets: true,
	})
	if err != nil {
		return err
	}
	defer plane.Stop()
	if err := register(ctx, plane, nodes); err != nil {
		return err
	}
	fmt.Printf("\n%s\nalias kubectl=%s\n\n%d nodes; logs and kubeconfig files in %s; Ctrl-C ends it.\n",
		"export "+strings.Join(plane.KubectlEnv(), " "), plane.KubectlPath(), nodes, plane.Dir)
	<-ctx.Done()
	return plane.Stop()
}

// register creates the nodes that are not there yet.
func register(ctx context.Context, plane *controlplane.ControlPlane, count int) error {
	client, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		return err
	}
	for i, name := range controlplane.NodeNames(count) {
		pool := "gpu-h100-rack-a"
		if i >= rackSize {
			pool = "gpu-h100-rack-b"
		}
		node := controlplane.Node(name, map[string]string{"hardware-pool": pool})
		_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("registering node %s: %w", name, err)
		}
	}
	return nil
}
