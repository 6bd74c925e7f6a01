// Command components is every part of a Kubernetes control plane in one binary. The name it is called by
// (a link to it) chooses the part: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, or
// kwok-stages, which prints the stock Stage objects that make kwok play a kubelet.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// parts maps the name a link bears to what runs under it. A part ends the process itself or returns 0-255.
var parts = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 runKubectl,
	"kwok-stages":             printStages,
}

func main() {
	run, known := parts[filepath.Base(os.Args[0])]
	if !known {
		fmt.Fprintf(os.Stderr, "call this binary by one of the names %s\n", strings.Join(names(), ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

func runKubectl() int {
	// The verbosity has to be known before the command is built, since building it already reads the user's kuberc file.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints the error the way kubectl does and exits
	}
	return 0
}

func names() []string {
	out := make([]string, 0, len(parts))
	for name := range parts {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}
