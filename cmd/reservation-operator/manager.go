package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/commit"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
	"github.com/reservation-operator/reservation-operator/reconciler/node"
	"github.com/reservation-operator/reservation-operator/source/fetch"
	"github.com/reservation-operator/reservation-operator/webhook/fence"
	"github.com/reservation-operator/reservation-operator/webhook/serve"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=reservation-operator,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=reservation-operator,resources=leases,resourceNames=reservation-operator,verbs=get;update

// +kubebuilder:rbac:groups="",namespace=reservation-operator,resources=events,verbs=create;patch

// leaderElectionID names the lease.
const leaderElectionID = "reservation-operator"

// newManager wires every reconciler and webhook to one manager. Nothing runs before the manager is started.
func newManager(ctx context.Context, config *rest.Config, o Options) (manager.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	cached := cacheOptions(v1alpha1.OperatorNamespace)
	cached.SyncPeriod = &o.Manager.SyncPeriod
	certificates := serve.NewCertificates(serve.CertificateOptions{Secret: o.certificate(), Endpoint: o.endpoint()})
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cached,
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Pod{}}}},
		Metrics:                       metricsserver.Options{BindAddress: o.Manager.MetricsAddress},
		HealthProbeBindAddress:        o.Manager.HealthAddress,
		PprofBindAddress:              o.Manager.PprofAddress,
		WebhookServer:                 webhook.NewServer(serve.ServerOptions(o.Webhook.Host, o.Webhook.Port, certificates.GetCertificate)),
		LeaderElection:                o.LeaderElection.Enable,
		LeaderElectionID:              leaderElectionID,
		LeaderElectionNamespace:       v1alpha1.OperatorNamespace,
		LeaderElectionReleaseOnCancel: o.LeaderElection.ReleaseOnCancel,
		LeaseDuration:                 &o.LeaderElection.LeaseDuration,
		RenewDeadline:                 &o.LeaderElection.RenewDeadline,
		RetryPeriod:                   &o.LeaderElection.RetryPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	live, err := client.New(config, client.Options{Scheme: scheme, HTTPClient: mgr.GetHTTPClient(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	w := wiring{
		Manager: mgr, options: o, live: live, certificates: certificates,
		view: &allocate.View{}, ledger: &ledger.Ledger{},
	}
	for _, add := range []func(context.Context) error{w.nodes, w.doors, w.sources, w.health} {
		if err := add(ctx); err != nil {
			return nil, err
		}
	}
	return mgr, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

// wiring is what the parts share while they are put together.
type wiring struct {
	manager.Manager
	options Options
	// self is the operator's user name at the API server.
	self string
	// live reads past the cache.
	live         client.Client
	certificates *serve.Certificates
	view         *allocate.View
	ledger       *ledger.Ledger
}

// nodes adds what decides about nodes and what acts on it.
func (w *wiring) nodes(context.Context) error {
	typed, err := kubernetes.NewForConfigAndClient(w.GetConfig(), w.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	pods := node.NewWatcher(typed)
	if err := w.Add(pods); err != nil {
		return err
	}
	if err := (&allocate.Reconciler{
		Client: w.GetClient(), Live: w.GetAPIReader(), Namespace: v1alpha1.OperatorNamespace,
		Fence: fence.Probe{Client: w.GetClient()}, Ledger: w.ledger, View: w.view, Clock: clock.RealClock{},
	}).SetupWithManager(w); err != nil {
		return err
	}
	if err := (&allocate.StatusReconciler{Client: w.GetClient(), View: w.view, Ledger: w.ledger}).SetupWithManager(w); err != nil {
		return err
	}
	return (&node.Reconciler{
		Client: w.GetClient(), Live: w.GetAPIReader(), Pods: pods, View: w.view, Ledger: w.ledger,
		Events: w.GetEventRecorder("reservation-operator"), Clock: clock.RealClock{},
		Concurrency: w.options.Manager.NodeConcurrency,
		Exempt:      w.options.fence(false).Exempt(),
	}).SetupWithManager(w, pods)
}

// sources adds what follows the tenants' repositories.
func (w *wiring) sources(context.Context) error {
	if err := fetch.Sweep(); err != nil {
		ctrl.Log.Error(err, "files of an earlier run could not be removed")
	}
	reserved := []string{}
	if w.options.Fence.ExemptLabel != "" {
		reserved = append(reserved, w.options.Fence.ExemptLabel)
	}
	return (&commit.Reconciler{
		Client: w.GetClient(), Live: w.GetAPIReader(), Namespace: v1alpha1.OperatorNamespace, User: w.self,
		ReservedNamespaces: w.options.Fence.ExemptNamespaces, ReservedLabels: reserved,
		Events: w.GetEventRecorder("reservation-operator"), Clock: clock.RealClock{},
		Concurrency: w.options.Manager.SourceConcurrency,
	}).SetupWithManager(w)
}

// health adds what the kubelet asks: alive, and ready once the webhooks can answer.
func (w *wiring) health(context.Context) error {
	if err := w.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return err
	}
	if err := w.AddReadyzCheck("certificate", w.certificates.Ready); err != nil {
		return err
	}
	return w.AddReadyzCheck("webhooks", w.GetWebhookServer().StartedChecker())
}
