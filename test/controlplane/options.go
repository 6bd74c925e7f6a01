package controlplane

import (
	"io"
	"os"
)

// Version is the Kubernetes version that Build compiles, as the API server and kubectl report it.
const Version = "v1.37.2"

// The components, by the names that StopComponent and StartComponent take. Each logs to a file NAME.log in
// ControlPlane.Dir.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	Scheduler         = "kube-scheduler"
	ControllerManager = "kube-controller-manager"
	Kwok              = "kwok"
)

// Options says what to start. The zero value starts etcd and the API server in a temporary folder.
type Options struct {
	// Dir is where data, certificates, logs and kubeconfig files go; it is made if absent and kept after Stop.
	// Objects from an earlier control plane in the same folder are still there; its certificates are not valid any more.
	// Empty: a temporary folder, removed by Stop.
	Dir string

	// Scheduler starts kube-scheduler.
	Scheduler bool
	// ControllerManager starts kube-controller-manager. Without it, namespaces get no default service account and
	// pods may be created without one, deleted namespaces stay, owners' dependents are not collected, and the
	// taint node.kubernetes.io/not-ready stays on new nodes.
	ControllerManager bool
	// Kubelets starts kwok, which makes every node Ready and every pod bound to one Running.
	Kubelets bool

	// APIServerArgs are flags of kube-apiserver without the leading dashes. They win over the ones set here.
	APIServerArgs map[string]string

	// Progress receives lines about the build, the start, and components that end unasked. Nil: os.Stderr.
	Progress io.Writer
}

func (o Options) progress() io.Writer {
	if o.Progress != nil {
		return o.Progress
	}
	return os.Stderr
}

// components are the names to start, in order.
func (o Options) components() []string {
	names := []string{Etcd, APIServer}
	if o.Scheduler {
		names = append(names, Scheduler)
	}
	if o.ControllerManager {
		names = append(names, ControllerManager)
	}
	if o.Kubelets {
		names = append(names, Kwok)
	}
	return names
}
