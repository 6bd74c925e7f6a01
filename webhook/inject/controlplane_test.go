package inject_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
	"github.com/reservation-operator/reservation-operator/webhook/inject"
	"github.com/reservation-operator/reservation-operator/webhook/serve"
	"github.com/reservation-operator/reservation-operator/webhook/validate"
)

const self = "system:serviceaccount:reservation-operator:reservation-operator"

// TestAdmission has a real API server call the webhooks, registered as the operator registers them.
func TestAdmission(t *testing.T) {
	plane, c := start(t)
	create(t, c, namespace("alpha-train"), namespace("elsewhere"))
	alpha := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "alpha-reservation"}}
	alpha.Spec = v1alpha1.ReservationSpec{Tenant: "alpha", ReservedNodes: []string{"gpu-01"}, Namespaces: []string{"alpha-train"}}
	bind := &v1alpha1.ReservationBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "alpha-train", Name: "alpha-bind"}}
	bind.Spec = v1alpha1.ReservationBindingSpec{
		ReservationName: alpha.Name, PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "train"}},
	}
	create(t, c, alpha, bind)
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		// An API server heeds a new configuration, and a cache a new binding, within a second or so.
		require.NotNil(ct, tried(ct, c, pod("alpha-train", "train")).Spec.Affinity)
	}, time.Minute, 100*time.Millisecond)

	t.Run("a tenant's pod gets exactly what the page shows", func(t *testing.T) {
		p := pod("alpha-train", "train")
		create(t, c, p)
		require.Equal(t, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "reserved.tenant", Operator: "In", Values: []string{"alpha"}}},
			}}},
		}}, p.Spec.Affinity)
		require.Equal(t, 1, count(p, corev1.Toleration{Key: "reserved", Operator: "Equal", Value: "alpha", Effect: "NoSchedule"}))

		// A22 (b): an update that only touches the metadata passes and changes nothing else.
		before := p.DeepCopy()
		p.Labels["note"] = "seen"
		require.NoError(t, c.Update(t.Context(), p))
		require.Equal(t, before.Spec, p.Spec)
	})
	t.Run("A20: fields that the operator does not look at survive", func(t *testing.T) {
		template := "gpu-template"
		p := pod("alpha-train", "train")
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "g", ResourceClaimTemplateName: &template}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "g"}}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "queue"}}
		got := tried(t, c, p.DeepCopy())
		require.Equal(t, p.Spec.ResourceClaims, got.Spec.ResourceClaims)
		require.Equal(t, p.Spec.Containers[0].Resources.Claims, got.Spec.Containers[0].Resources.Claims)
		require.Equal(t, p.Spec.SchedulingGates, got.Spec.SchedulingGates)
		require.NotNil(t, got.Spec.Affinity)
	})
	t.Run("a pod that no binding selects is left alone, and kept out if it tolerates everything", func(t *testing.T) {
		p := tried(t, c, pod("alpha-train", "debug"))
		require.Nil(t, p.Spec.Affinity)
		p = pod("alpha-train", "debug")
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		terms := tried(t, c, p).Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		require.Equal(t, []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "reserved.tenant", Operator: "DoesNotExist"}},
		}}, terms)
	})
	t.Run("other namespaces are not called for", func(t *testing.T) {
		require.Nil(t, tried(t, c, pod("elsewhere", "train")).Spec.Affinity)
	})
	t.Run("a pod that contradicts its binding is refused with what to do", func(t *testing.T) {
		p := pod("alpha-train", "train")
		p.Spec.NodeSelector = map[string]string{"reserved.tenant": "beta"}
		err := c.Create(t.Context(), p)
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, `spec.nodeSelector[reserved.tenant] demands tenant "beta", but ReservationBinding alpha-bind`)
	})
	t.Run("an overlap is refused, but not the operator's", func(t *testing.T) {
		beta := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "beta-reservation"}}
		beta.Spec = v1alpha1.ReservationSpec{Tenant: "beta", ReservedNodes: []string{"gpu-01"}}
		err := c.Create(t.Context(), beta.DeepCopy(), client.DryRunAll)
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "gpu-01 is already in Reservation alpha-reservation (tenant alpha); remove it there first")
		config := plane.AsUser(self, "system:masters")
		operator, err := client.New(config, client.Options{Scheme: c.Scheme()})
		require.NoError(t, err)
		err = operator.Create(t.Context(), beta.DeepCopy(), client.DryRunAll)
		require.True(t, apierrors.IsInvalid(err), "a person who runs the operator: %v", err)
		require.NoError(t, operator.Create(t.Context(), beta, client.DryRunAll, client.FieldOwner(v1alpha1.FieldManagerSource)))
	})
	t.Run("a binding without a right to its Reservation is refused", func(t *testing.T) {
		thief := &v1alpha1.ReservationBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "thief"}, Spec: bind.Spec}
		err := c.Create(t.Context(), thief)
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, "does not accept namespace elsewhere")
		require.NotContains(t, err.Error(), "alpha-train")
	})
	t.Run("without its binding, a pod is left alone", func(t *testing.T) {
		require.NoError(t, c.Delete(t.Context(), bind))
		require.EventuallyWithT(t, func(ct *assert.CollectT) {
			require.Nil(ct, tried(ct, c, pod("alpha-train", "train")).Spec.Affinity)
		}, time.Minute, 100*time.Millisecond)
	})
}

// start returns a control plane that the webhooks and the binding reconciler run against, and a client.
func start(t *testing.T) (*controlplane.ControlPlane, client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	plane, err := controlplane.Start(ctx, controlplane.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	require.NoError(t, plane.Apply(ctx, "../../config/crd"))

	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	c, err := client.New(plane.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())
	certificate, ca := certificate(t)
	mgr, err := ctrl.NewManager(plane.Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(serve.ServerOptions("127.0.0.1", port,
			func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil })),
	})
	require.NoError(t, err)
	server := mgr.GetWebhookServer()
	server.Register(serve.MutatePodsPath, &webhook.Admission{Handler: inject.NewHandler(inject.NewLookup(mgr.GetClient()))})
	server.Register(serve.ValidateReservationsPath, &webhook.Admission{Handler: validate.NewReservationHandler(mgr.GetClient(), self)})
	server.Register(serve.ValidateReservationBindingsPath, &webhook.Admission{Handler: validate.NewBindingHandler(mgr.GetAPIReader(), self)})

	endpoint := serve.Endpoint{URL: fmt.Sprintf("https://localhost:%d", port)}
	create(t, c, serve.Mutating(endpoint, ca, []string{"alpha-train"}), serve.Validating(endpoint, ca, nil))

	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return plane, c
}

// certificate returns one for localhost, and that of the authority that signed it.
func certificate(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	chain, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(chain, key)
	require.NoError(t, err)
	var ca bytes.Buffer
	require.NoError(t, pem.Encode(&ca, &pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[len(pair.Certificate)-1]}))
	return pair, ca.Bytes()
}

func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		require.NoError(t, c.Create(t.Context(), o))
	}
}

// tried returns the pod as a dry run leaves it.
func tried(t require.TestingT, c client.Client, p *corev1.Pod) *corev1.Pod {
	require.NoError(t, c.Create(context.Background(), p, client.DryRunAll))
	return p
}

func count(p *corev1.Pod, toleration corev1.Toleration) (n int) {
	for _, has := range p.Spec.Tolerations {
		if has.MatchToleration(&toleration) {
			n++
		}
	}
	return n
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func pod(namespace, team string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "pod-", Labels: map[string]string{"team": team}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}
}
