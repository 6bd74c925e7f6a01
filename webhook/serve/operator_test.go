package serve_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/reservation-operator/reservation-operator/webhook/fence"
	"github.com/reservation-operator/reservation-operator/webhook/serve"
)

var secretKey = types.NamespacedName{Namespace: namespace, Name: serve.SecretName}

// replica is one operator, as far as this package goes, with a webhook that marks pods.
type replica struct {
	certificates *serve.Certificates
	registrar    *serve.Registrar
	address      string
	elected      <-chan struct{}
}

var replicas atomic.Int64

// run starts a replica and stops it when the test ends, or by the function that it returns. called is the URL by which the
// API server calls, empty for the replica's own.
func run(t *testing.T, called string, leaderElection bool) (*replica, func()) {
	t.Helper()
	cluster(t)
	port := freePort(t)
	if called == "" {
		called = fmt.Sprintf("https://localhost:%d", port)
	}
	endpoint := serve.Endpoint{URL: called}
	certificates := serve.NewCertificates(serve.CertificateOptions{
		Secret: secretKey, Endpoint: endpoint, ControllerName: fmt.Sprintf("certificates-%d", replicas.Add(1)),
	})
	config := live.plane.AsUser(operatorUser)
	options := ctrl.Options{
		Scheme:         newScheme(t),
		Metrics:        metricsserver.Options{BindAddress: "0"},
		LeaderElection: leaderElection, LeaderElectionID: "serve-test", LeaderElectionNamespace: namespace,
		LeaderElectionConfig: live.plane.Config, LeaderElectionReleaseOnCancel: true,
		Controller:              ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
		WebhookServer:           webhook.NewServer(serve.ServerOptions("127.0.0.1", port, certificates.GetCertificate)),
		GracefulShutdownTimeout: ptr.To(5 * time.Second),
	}
	mgr, err := ctrl.NewManager(config, options)
	require.NoError(t, err)
	mgr.GetWebhookServer().Register(serve.MutatePodsPath, &webhook.Admission{Handler: admission.HandlerFunc(mark)})
	direct, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	registrar := &serve.Registrar{
		Client: direct, Endpoint: endpoint, Secret: secretKey,
		Fence: &fence.Installer{Client: direct, Settings: fence.Settings{Namespace: namespace, KeepOut: true}},
	}
	require.NoError(t, certificates.SetupWithManager(mgr))
	require.NoError(t, registrar.SetupWithManager(mgr, certificates.Changed()))

	ctx, cancel := context.WithCancel(after(t))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(t, <-ended)
	}
	t.Cleanup(stop)
	return &replica{certificates, registrar, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), mgr.Elected()}, stop
}

// newScheme is one for a manager, which adds to it.
func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, scheme.AddToScheme(s))
	return s
}

// clean removes what a replica leaves in the cluster.
func clean(t *testing.T) {
	cluster(t)
	t.Cleanup(func() {
		removeConfigurations(t)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}}
		require.NoError(t, client.IgnoreNotFound(live.admin.Delete(after(t), secret)))
	})
}

// mark answers with a label.
func mark(context.Context, admission.Request) admission.Response {
	return admission.Patched("", jsonpatch.NewOperation("add", "/metadata/labels", map[string]string{"marked": "yes"}))
}

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", GenerateName: "pod-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}
}

func (r *replica) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) { assert.NoError(c, r.certificates.Ready(nil)) })
}

// awaitInjection waits until pods in the namespace tenant are marked.
func awaitInjection(t *testing.T) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		p := newPod()
		require.NoError(c, live.admin.Create(t.Context(), p, client.DryRunAll))
		assert.Equal(c, "yes", p.Labels["marked"])
	})
}

// served is the certificate that the replica shows to a new connection, verified by the CA bundle that is registered.
func (r *replica) served(t require.TestingT) *x509.Certificate {
	v := validating()
	require.NoError(t, live.admin.Get(context.Background(), client.ObjectKeyFromObject(v), v))
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(v.Webhooks[0].ClientConfig.CABundle))
	conn, err := tls.Dial("tcp", r.address, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	require.NoError(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// forget removes keys from the Secret, for the library to make them anew.
func forget(t *testing.T, keys ...string) {
	t.Helper()
	data := map[string]any{}
	for _, key := range keys {
		data[key] = nil
	}
	body, err := json.Marshal(map[string]any{"data": data})
	require.NoError(t, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}}
	require.NoError(t, live.admin.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, body)))
}
