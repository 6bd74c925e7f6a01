package serve_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reservation-operator/reservation-operator/webhook/serve"
)

// fences counts how often they were asked to stand.
type fences struct {
	asked atomic.Int64
	err   error
}

func (f *fences) Ensure(context.Context) error {
	f.asked.Add(1)
	return f.err
}

func (f *fences) Kinds() []client.Object { return nil }

// registrar is one with a CA of its own, and a count of its writes.
func registrar(t *testing.T) (*serve.Registrar, *fences, *atomic.Int64) {
	t.Helper()
	admin := cluster(t)
	library := rotator.CertRotator{CAName: "ca", CAOrganization: "test"}
	ca, err := library.CreateCACert(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "ca-"}, Data: map[string][]byte{"ca.crt": ca.CertPEM},
	}
	require.NoError(t, admin.Create(t.Context(), secret))
	t.Cleanup(func() {
		_ = admin.Delete(after(t), secret)
		removeConfigurations(t)
	})

	var writes atomic.Int64
	counting := interceptor.NewClient(admin, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			writes.Add(1)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			writes.Add(1)
			return c.Update(ctx, o, opts...)
		},
	})
	f := &fences{}
	return &serve.Registrar{
		Client: counting, Fence: f, Endpoint: serve.Endpoint{URL: "https://localhost:1"}, Secret: client.ObjectKeyFromObject(secret),
	}, f, &writes
}

func removeConfigurations(t *testing.T) {
	for _, object := range []client.Object{mutating(), validating()} {
		require.NoError(t, client.IgnoreNotFound(cluster(t).Delete(after(t), object)))
	}
}

func mutating() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: serve.MutatingName}}
}

func validating() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: serve.ValidatingName}}
}

// registeredNamespaces are those of the live configuration.
func registeredNamespaces(t require.TestingT, ctx context.Context) []string {
	m := mutating()
	require.NoError(t, live.admin.Get(ctx, client.ObjectKeyFromObject(m), m))
	if len(m.Webhooks) == 0 {
		return nil
	}
	return m.Webhooks[0].NamespaceSelector.MatchExpressions[0].Values
}

func TestRegistrationFollowsTheNamespacesAndWritesOnlyChanges(t *testing.T) {
	r, fences, writes := registrar(t)
	steps := []struct {
		what   string
		bound  []string
		want   []string
		writes int64
	}{
		{"first both configurations", nil, nil, 2},
		{"nothing new", nil, nil, 0},
		{"a namespace", []string{"foo"}, []string{"foo"}, 1},
		{"the same", []string{"foo"}, []string{"foo"}, 0},
		{"another, in any order", []string{"foo", "bar"}, []string{"bar", "foo"}, 1},
		{"the same in another", []string{"bar", "foo"}, []string{"bar", "foo"}, 0},
		{"never where a cluster comes up", []string{"kube-system", namespace, "foo", "bar"}, []string{"bar", "foo"}, 0},
		{"one goes", []string{"bar"}, []string{"bar"}, 1},
		{"all go", nil, nil, 1},
	}
	for i, step := range steps {
		before := writes.Load()
		require.NoError(t, r.Ensure(t.Context(), step.bound), step.what)
		require.Equal(t, step.want, registeredNamespaces(t, t.Context()), step.what)
		require.Equal(t, step.writes, writes.Load()-before, step.what)
		require.EqualValues(t, i+1, fences.asked.Load(), step.what)
	}
}

func TestDriftIsCorrectedInPlace(t *testing.T) {
	r, _, writes := registrar(t)
	require.NoError(t, r.Ensure(t.Context(), []string{"foo"}))
	admin := cluster(t)
	ignore := admissionregistrationv1.Ignore
	tests := map[string]func(m *admissionregistrationv1.MutatingWebhookConfiguration){
		"a failure policy": func(m *admissionregistrationv1.MutatingWebhookConfiguration) { m.Webhooks[0].FailurePolicy = &ignore },
		"a CA bundle": func(m *admissionregistrationv1.MutatingWebhookConfiguration) {
			m.Webhooks[0].ClientConfig.CABundle = nil
		},
		"one more webhook, which server-side apply would leave": func(m *admissionregistrationv1.MutatingWebhookConfiguration) {
			more := m.Webhooks[0].DeepCopy()
			more.Name = "more.example.com"
			m.Webhooks = append(m.Webhooks, *more)
		},
		"no webhook": func(m *admissionregistrationv1.MutatingWebhookConfiguration) { m.Webhooks = nil },
		"a label":    func(m *admissionregistrationv1.MutatingWebhookConfiguration) { m.Labels = nil },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			before := mutating()
			require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(before), before))
			changed := before.DeepCopy()
			change(changed)
			changed.Annotations = map[string]string{"example.com/note": name}
			require.NoError(t, admin.Update(t.Context(), changed))

			writes.Store(0)
			require.NoError(t, r.Repair(t.Context()))
			require.EqualValues(t, 1, writes.Load())
			got := mutating()
			require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(got), got))
			require.Equal(t, before.UID, got.UID)
			require.Equal(t, before.Webhooks, got.Webhooks)
			require.Equal(t, before.Labels, got.Labels)
			require.Equal(t, name, got.Annotations["example.com/note"], "what others annotate stays")
		})
	}
}

func TestWithoutACertificateTheFencesStandAndRegistrationsStay(t *testing.T) {
	r, fences, writes := registrar(t)
	require.NoError(t, r.Ensure(t.Context(), []string{"foo"}))
	secrets := map[string]types.NamespacedName{
		"no Secret":       {Namespace: namespace, Name: "missing"},
		"an empty Secret": {Namespace: namespace, Name: "empty"},
	}
	empty := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "empty"}}
	require.NoError(t, cluster(t).Create(t.Context(), empty))
	t.Cleanup(func() { require.NoError(t, cluster(t).Delete(after(t), empty)) })
	for name, secret := range secrets {
		t.Run(name, func(t *testing.T) {
			writes.Store(0)
			asked := fences.asked.Load()
			without := &serve.Registrar{Client: r.Client, Fence: r.Fence, Endpoint: r.Endpoint, Secret: secret}
			err := without.Ensure(t.Context(), []string{"foo", "bar"})
			require.ErrorIs(t, err, serve.ErrCertificateNotReady)
			require.ErrorContains(t, err, secret.Name)
			require.Equal(t, asked+1, fences.asked.Load())
			require.Zero(t, writes.Load())
			require.Equal(t, []string{"foo"}, registeredNamespaces(t, t.Context()))
		})
	}
}

func TestWithoutFencesNothingIsRegistered(t *testing.T) {
	r, fences, writes := registrar(t)
	fences.err = errors.New("no right to install them")
	require.ErrorIs(t, r.Ensure(t.Context(), []string{"foo"}), fences.err)
	require.Zero(t, writes.Load())
}

func TestARestartKeepsWhatIsRegisteredUntilItKnowsBetter(t *testing.T) {
	r, _, writes := registrar(t)
	require.NoError(t, r.Ensure(t.Context(), []string{"foo", "bar"}))

	restarted := &serve.Registrar{Client: r.Client, Fence: r.Fence, Endpoint: r.Endpoint, Secret: r.Secret}
	writes.Store(0)
	require.NoError(t, restarted.Repair(t.Context()))
	require.Zero(t, writes.Load())
	require.Equal(t, []string{"bar", "foo"}, registeredNamespaces(t, t.Context()))

	require.NoError(t, restarted.Ensure(t.Context(), []string{"foo"}))
	require.NoError(t, restarted.Repair(t.Context()))
	require.Equal(t, []string{"foo"}, registeredNamespaces(t, t.Context()))
}
