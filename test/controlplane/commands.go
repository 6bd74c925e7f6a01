package controlplane

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

//go:embed stages/pod.yaml
var podStages string

// commands are the components of a control plane by name, each with its arguments and its question about health.
func (c *ControlPlane) commands(o Options) map[string]*component {
	kubeconfig := func(name string) string { return filepath.Join(c.Dir, name+".kubeconfig") }
	pki := func(name string) string { return filepath.Join(c.Dir, "pki", name) }
	etcdURL, peerURL := "http://"+loopback(c.ports.etcdClient()), "http://"+loopback(c.ports.etcdPeer())

	apiServer := map[string]string{
		"etcd-servers":                     etcdURL,
		"bind-address":                     "127.0.0.1",
		"secure-port":                      fmt.Sprint(c.ports.apiServer()),
		"tls-cert-file":                    pki("apiserver.crt"),
		"tls-private-key-file":             pki("apiserver.key"),
		"client-ca-file":                   pki("ca.crt"),
		"service-account-issuer":           "https://kubernetes.default.svc",
		"service-account-key-file":         pki("service-accounts.key"),
		"service-account-signing-key-file": pki("service-accounts.key"),
		"service-cluster-ip-range":         "10.0.0.0/16",
		"authorization-mode":               "Node,RBAC",
		"enable-admission-plugins":         "NodeRestriction",
		"allow-privileged":                 "true",
		// A loopback address is no valid endpoint, so the Service "kubernetes" gets none.
		"endpoint-reconciler-type": "none",
		// Benchmarks measure the operator and the policies, not the queue for a small server.
		"max-requests-inflight":          "4000",
		"max-mutating-requests-inflight": "2000",
	}
	if !o.ControllerManager {
		// Nobody makes the default service accounts that this plugin demands of every pod.
		apiServer["disable-admission-plugins"] = "ServiceAccount"
	}
	maps.Copy(apiServer, o.APIServerArgs)

	all := map[string]*component{
		Etcd: {
			args: flags(map[string]string{
				"data-dir":                    filepath.Join(c.Dir, "etcd"),
				"listen-client-urls":          etcdURL,
				"advertise-client-urls":       etcdURL,
				"listen-peer-urls":            peerURL,
				"initial-advertise-peer-urls": peerURL,
				"initial-cluster":             "default=" + peerURL,
				"log-level":                   "warn",
				// The data need not outlive this machine, only the process.
				"unsafe-no-fsync": "true",
			}),
			healthy: answersOK(etcdURL+"/health", nil),
		},
		APIServer: {
			args:    flags(apiServer),
			healthy: answersOK("https://"+loopback(c.ports.apiServer())+"/readyz", c.authority),
		},
		Scheduler: {
			args: flags(map[string]string{
				"config":        filepath.Join(c.Dir, "kube-scheduler.yaml"),
				"bind-address":  "127.0.0.1",
				"secure-port":   fmt.Sprint(c.ports.scheduler()),
				"tls-cert-file": pki("apiserver.crt"), "tls-private-key-file": pki("apiserver.key"),
			}),
			healthy: answersOK("https://"+loopback(c.ports.scheduler())+"/healthz", c.authority),
		},
		ControllerManager: {
			args: flags(map[string]string{
				"kubeconfig":    kubeconfig(ControllerManager),
				"leader-elect":  "false",
				"bind-address":  "127.0.0.1",
				"secure-port":   fmt.Sprint(c.ports.controllerManager()),
				"tls-cert-file": pki("apiserver.crt"), "tls-private-key-file": pki("apiserver.key"),
				"service-account-private-key-file": pki("service-accounts.key"),
				"root-ca-file":                     pki("ca.crt"),
				"cluster-signing-cert-file":        pki("ca.crt"),
				"cluster-signing-key-file":         pki("ca.key"),
				// As in production, admission sees system:serviceaccount:kube-system:NAME-controller.
				"use-service-account-credentials": "true",
				"kube-api-qps":                    "500",
				"kube-api-burst":                  "1000",
			}),
			healthy: answersOK("https://"+loopback(c.ports.controllerManager())+"/healthz", c.authority),
		},
		Kwok: {
			args: flags(map[string]string{
				"kubeconfig":                  kubeconfig(Kwok),
				"config":                      filepath.Join(c.Dir, "kwok.yaml"),
				"manage-all-nodes":            "true",
				"node-lease-duration-seconds": "40",
				"server-address":              loopback(c.ports.kwok()),
			}),
			// Without it kwok also reads a configuration from the user's home.
			env:     []string{"KWOK_WORKDIR=" + filepath.Join(c.Dir, "kwok")},
			healthy: answersOK("http://"+loopback(c.ports.kwok())+"/healthz", nil),
		},
	}
	for name, component := range all {
		component.name, component.path = name, c.Binaries.Path(name)
		component.log = filepath.Join(c.Dir, name+".log")
	}
	return all
}

// flags turns names and values into sorted command-line flags.
func flags(values map[string]string) []string {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		args = append(args, "--"+name+"="+values[name])
	}
	return args
}

// writeConfigurations writes the files that the commands name, but for certificates and kubeconfigs.
func (c *ControlPlane) writeConfigurations() error {
	scheduler := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %s
  qps: 500
  burst: 1000
`, filepath.Join(c.Dir, Scheduler+".kubeconfig"))
	if err := os.WriteFile(filepath.Join(c.Dir, "kube-scheduler.yaml"), []byte(scheduler), 0o644); err != nil {
		return err
	}
	stages, err := os.ReadFile(c.Binaries.stages())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Dir, "kwok.yaml"), append(stages, podStages...), 0o644)
}
