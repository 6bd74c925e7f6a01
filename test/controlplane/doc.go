// Package controlplane builds and runs a real Kubernetes control plane for tests, demonstrations and benchmarks:
// etcd, kube-apiserver and, when asked for, kube-scheduler, kube-controller-manager and kwok, which plays the kubelets.
//
// What comes in: Options. Everything is compiled from Go modules (the nested module in components/), once per version,
// into the user's cache folder; no container engine and no download of binaries is involved. The first build takes
// minutes and says so; later ones return at once. Where KUBEBUILDER_ASSETS is set, its etcd and kube-apiserver are used.
//
// What goes out: a ControlPlane with a rest.Config, a kubeconfig file and a kubectl of the same version.
// RBAC is on, each component has its own identity, and the policies and webhooks of admission work as in production.
//
// What it never does: it listens on nothing but 127.0.0.1, installs no CRDs or other objects of its own, and leaves no
// process behind: Stop ends each by its own process id, and on Linux the kernel ends them when the test process dies,
// be it by a panic or by SIGKILL. On other systems a killed test process leaves them running.
//
// What differs from production: nodes and pods run nothing. A pod bound to a node is Ready at once, also that of a Job,
// and stays so until it is deleted or annotated with CompleteAnnotation. A deleted pod goes at once, like a process
// that obeys SIGTERM, unless it carries LingerAnnotation. The API server's in-flight limits are raised.
//
// A package shares one control plane among its tests:
//
//	var plane *controlplane.ControlPlane
//
//	func TestMain(m *testing.M) {
//		controlplane.Main(m, controlplane.Options{Scheduler: true, ControllerManager: true, Kubelets: true},
//			func(c *controlplane.ControlPlane) { plane = c })
//	}
package controlplane
