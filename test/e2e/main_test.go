package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/reservation-operator/reservation-operator/test/cluster"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// shared is the cluster of all tests here. It has the page's 14 nodes and a few for each test (see ownNodes). The
// operator runs whenever a test begins and when it ends.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	nodes := cluster.PageNodes()
	for i := range 64 {
		nodes = append(nodes, controlplane.Node(fmt.Sprintf("e2e-%02d", i+1), nil))
	}
	if shared, err = cluster.Start(ctx, cluster.Options{Nodes: nodes, Audit: true}); err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := shared.Stop(); err == nil {
			err = stopErr
		}
	}()
	if err := shared.Operator.Start(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
