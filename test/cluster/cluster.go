package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// Options says what to start.
type Options struct {
	// Dir is where everything is kept; a temporary folder that Stop removes if empty.
	Dir string
	// Nodes are registered before anything else.
	Nodes []*corev1.Node
	// APIServerArgs are flags of kube-apiserver, without dashes.
	APIServerArgs map[string]string
	// Audit records what the operator writes; read it with Cluster.Writes.
	Audit bool
	// Bare leaves out the scheduler, the controller manager and the kubelets.
	Bare bool
	// Progress receives a line about whatever takes time; nil is os.Stderr.
	Progress io.Writer
}

// Cluster is a running control plane with the operator's CRDs and roles installed.
type Cluster struct {
	*controlplane.ControlPlane
	// Client acts as an administrator, without a cache.
	Client client.Client
	// Operator is the operator; it does not run yet.
	Operator *Operator

	audit      string
	mu         sync.Mutex
	kubeconfig string // of the operator's service account, once there is one
}

// Start starts the control plane, registers the nodes and installs the CRDs and roles. The operator is started by
// Operator.Start.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	args := maps.Clone(o.APIServerArgs)
	var audit string
	if o.Audit {
		var err error
		if audit, err = prepareAudit(); err != nil {
			return nil, err
		}
		if args == nil {
			args = map[string]string{}
		}
		maps.Copy(args, auditArgs(audit))
	}
	c, err := start(ctx, o, args)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(audit))
	}
	c.audit = audit
	return c, nil
}

func start(ctx context.Context, o Options, args map[string]string) (*Cluster, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Dir: o.Dir, Scheduler: !o.Bare, ControllerManager: !o.Bare, Kubelets: !o.Bare,
		APIServerArgs: args, Progress: o.Progress,
	})
	if err != nil {
		return nil, err
	}
	c, err := install(ctx, plane, o.Nodes)
	if err != nil {
		return nil, errors.Join(err, plane.Stop())
	}
	return c, nil
}

func install(ctx context.Context, plane *controlplane.ControlPlane, nodes []*corev1.Node) (*Cluster, error) {
	scheme := k8sruntime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	admin, err := client.New(plane.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	for _, node := range nodes {
		if err := admin.Create(ctx, node.DeepCopy()); err != nil {
			return nil, fmt.Errorf("registering node %s: %w", node.Name, err)
		}
	}
	if err := plane.Apply(ctx, Root("config", "crd"), Root("config", "rbac")); err != nil {
		return nil, fmt.Errorf("installing the CRDs and roles: %w", err)
	}
	c := &Cluster{ControlPlane: plane, Client: admin}
	c.Operator = c.NewOperator("operator")
	return c, nil
}

// Stop ends the operator, if it runs, and the control plane.
func (c *Cluster) Stop() error {
	c.Operator.Kill()
	err := c.ControlPlane.Stop()
	if c.audit != "" {
		err = errors.Join(err, os.RemoveAll(c.audit))
	}
	return err
}

// Root returns a path below the root of this project's source.
func Root(elements ...string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(append([]string{filepath.Dir(file), "..", ".."}, elements...)...)
}

// PageNodes returns the 14 nodes of the page's cluster, gpu-01 to gpu-14: eight in hardware-pool gpu-h100-rack-a, four
// in gpu-h100-rack-b, and two in the general pool.
func PageNodes() []*corev1.Node {
	nodes := make([]*corev1.Node, 0, 14)
	for i, name := range controlplane.NodeNames(14) {
		pool := "general"
		if i < 8 {
			pool = "gpu-h100-rack-a"
		} else if i < 12 {
			pool = "gpu-h100-rack-b"
		}
		nodes = append(nodes, controlplane.Node(name, map[string]string{"hardware-pool": pool}))
	}
	return nodes
}
