package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/leaderelection"
	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/webhook/fence"
	"github.com/reservation-operator/reservation-operator/webhook/serve"
)

// Options is everything that can be set from the command line.
type Options struct {
	Client         ClientOptions
	Logger         logger.Options
	LeaderElection leaderelection.Options
	Manager        ManagerOptions
	Webhook        WebhookOptions
	Fence          FenceOptions
}

// ClientOptions are about the client of the API server.
type ClientOptions struct {
	// Kubeconfig is a file; empty is the Pod's own service account, or KUBECONFIG.
	Kubeconfig string
	// QPS and Burst limit the operator's requests; a negative QPS leaves that to the API server's priority and fairness.
	QPS   float32
	Burst int
}

// BindFlags registers the options with a flag set.
func (o *ClientOptions) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", "", "A kubeconfig file, for an operator outside the cluster.")
	fs.Float32Var(&o.QPS, "kube-api-qps", -1,
		"The most requests a second to the API server; negative leaves it to the API server's priority and fairness.")
	fs.IntVar(&o.Burst, "kube-api-burst", 300, "The most requests at once above kube-api-qps.")
}

// Config returns how to reach the API server. An error says which file cannot be read.
func (o *ClientOptions) Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	from, named := "--kubeconfig", os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	switch {
	case o.Kubeconfig != "":
	case named == "":
		from = clientcmd.RecommendedHomeFile
	default:
		from = clientcmd.RecommendedConfigPathEnvVar
		// Files that are not there are passed over without a word.
		if !slices.ContainsFunc(rules.Precedence, func(file string) bool { _, err := os.Stat(file); return !os.IsNotExist(err) }) {
			return nil, fmt.Errorf("%s names no file that exists: %s", from, named)
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	config.QPS, config.Burst, config.UserAgent = o.QPS, o.Burst, "reservation-operator"
	return config, nil
}

// ManagerOptions are about the process and its reconcilers.
type ManagerOptions struct {
	// MetricsAddress, HealthAddress and PprofAddress are host:port; "0" switches the server off.
	MetricsAddress, HealthAddress, PprofAddress string
	// NodeConcurrency and SourceConcurrency are how many nodes and sources are worked on at once.
	NodeConcurrency, SourceConcurrency int
	// SyncPeriod is how often everything that is watched is looked at again as if it had changed.
	SyncPeriod time.Duration
}

// WebhookOptions are about the webhook server.
type WebhookOptions struct {
	// Host and Port are what the server listens on.
	Host string
	Port int
	// URL is where the API server reaches it if not through Service.
	URL string
	// Service is its Service in the operator's namespace.
	Service string
}

// FenceOptions are about the admission policies.
type FenceOptions struct {
	// ExemptNamespaces may run pods on every node.
	ExemptNamespaces []string
	// ExemptLabel is the label key that exempts a namespace; empty for none.
	ExemptLabel string
}

// BindFlags registers every option with a flag set.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	o.Client.BindFlags(fs)
	o.Logger.BindFlags(fs)
	o.LeaderElection.BindFlags(fs)
	o.Manager.BindFlags(fs)
	o.Webhook.BindFlags(fs)
	o.Fence.BindFlags(fs)
}

// BindFlags registers the options with a flag set.
func (o *ManagerOptions) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "The host:port of the metrics endpoint; 0 switches it off.")
	fs.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8081", "The host:port of /healthz and /readyz; 0 switches it off.")
	fs.StringVar(&o.PprofAddress, "pprof-bind-address", "0",
		"The host:port of Go's profiler, to see what the operator spends its time and memory on; 0 switches it off.")
	fs.IntVar(&o.NodeConcurrency, "node-concurrency", 16, "How many nodes are worked on at once.")
	fs.IntVar(&o.SourceConcurrency, "source-concurrency", 4, "How many sources are worked on at once.")
	fs.DurationVar(&o.SyncPeriod, "sync-period", 10*time.Hour,
		"How often everything that is watched is looked at again as if it had changed. Where all is in order that writes nothing.")
}

// BindFlags registers the options with a flag set.
func (o *WebhookOptions) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Host, "webhook-host", "", "The address that the webhook server listens on; empty is every one.")
	fs.IntVar(&o.Port, "webhook-port", 9443, "The port that the webhook server listens on.")
	fs.StringVar(&o.URL, "webhook-url", "",
		"Where the API server reaches the webhooks, for an operator outside the cluster, such as https://localhost:9443. "+
			"Empty: through the Service.")
	fs.StringVar(&o.Service, "webhook-service", "reservation-webhook",
		"The Service, in the operator's namespace, through which the API server reaches the webhooks.")
}

// BindFlags registers the options with a flag set.
func (o *FenceOptions) BindFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.ExemptNamespaces, "exempt-namespaces", nil,
		"Namespaces whose pods may run on every node, besides kube-system and the operator's own.")
	fs.StringVar(&o.ExemptLabel, "exempt-label", "",
		"The key of a label that exempts the namespaces bearing it. Only platform users should be able to set it.")
}

// Validate returns every mistake in the options at once, each with the flag to correct.
func (o *Options) Validate() error {
	var errs []error
	for _, name := range o.Fence.ExemptNamespaces {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--exempt-namespaces: %q is not a namespace: %s", name, problems[0]))
		}
	}
	if o.Fence.ExemptLabel != "" {
		if problems := validation.IsQualifiedName(o.Fence.ExemptLabel); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--exempt-label: %q is not a label key: %s", o.Fence.ExemptLabel, problems[0]))
		}
	}
	if u, err := url.Parse(o.Webhook.URL); o.Webhook.URL != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "") {
		errs = append(errs, fmt.Errorf("--webhook-url: %q must be https://HOST:PORT", o.Webhook.URL))
	}
	if o.Webhook.Port < 1 || o.Webhook.Port > 65535 {
		errs = append(errs, fmt.Errorf("--webhook-port: %d is not a port", o.Webhook.Port))
	}
	if levels := []string{"trace", "debug", "info", "error"}; !slices.Contains(levels, o.Logger.LogLevel) {
		errs = append(errs, fmt.Errorf("--log-level: %q is none of %s", o.Logger.LogLevel, strings.Join(levels, ", ")))
	}
	if o.Logger.LogEncoding != "json" && o.Logger.LogEncoding != "console" {
		errs = append(errs, fmt.Errorf("--log-encoding: %q is neither json nor console", o.Logger.LogEncoding))
	}
	if o.Manager.SyncPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--sync-period: %s is no period", o.Manager.SyncPeriod))
	}
	if o.Manager.NodeConcurrency < 1 || o.Manager.SourceConcurrency < 1 {
		errs = append(errs, errors.New("--node-concurrency, --source-concurrency: must be at least 1"))
	}
	return errors.Join(errs...)
}

// endpoint returns where the API server reaches the webhooks.
func (o *Options) endpoint() serve.Endpoint {
	if o.Webhook.URL != "" {
		return serve.Endpoint{URL: o.Webhook.URL}
	}
	return serve.Endpoint{ServiceNamespace: v1alpha1.OperatorNamespace, ServiceName: o.Webhook.Service}
}

// certificate names the Secret of the webhooks' certificate.
func (o *Options) certificate() types.NamespacedName {
	return types.NamespacedName{Namespace: v1alpha1.OperatorNamespace, Name: serve.SecretName}
}

func (o *Options) fence(keepOut bool) fence.Settings {
	return fence.Settings{
		Namespace: v1alpha1.OperatorNamespace, ExemptNamespaces: o.Fence.ExemptNamespaces, ExemptLabel: o.Fence.ExemptLabel,
		KeepOut: keepOut,
	}
}
