package serve_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/reservation-operator/reservation-operator/webhook/fence"
	"github.com/reservation-operator/reservation-operator/webhook/serve"
)

func TestCertificatesAreRenewedWithoutARestartAndWithoutAFailure(t *testing.T) {
	clean(t)
	r, _ := run(t, "", false)
	begin := time.Now()
	eventually(t, func(c *assert.CollectT) { assert.NoError(c, r.registrar.Ensure(t.Context(), []string{"tenant"})) })
	r.awaitReady(t)
	awaitInjection(t)
	t.Logf("from an empty cluster to the first injected pod: %s", time.Since(begin).Round(time.Millisecond))
	require.Greater(t, time.Until(r.certificates.NotAfter()), 300*24*time.Hour)

	// Pods are created all the time, and new connections made.
	var created, failed atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			p := newPod()
			err := live.admin.Create(ctx, p, client.DryRunAll)
			if ctx.Err() == nil && (err != nil || p.Labels["marked"] != "yes") {
				failed.Add(1)
				t.Logf("a pod failed: %v", err)
			}
			created.Add(1)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	for _, keys := range [][]string{{"tls.crt"}, {"tls.key", "tls.crt"}, {"ca.crt"}, {"ca.key"}, {"ca.crt", "ca.key", "tls.crt", "tls.key"}} {
		before := r.served(t)
		begin := time.Now()
		forget(t, keys...)
		eventually(t, func(c *assert.CollectT) {
			assert.False(c, r.served(c).Equal(before), "another certificate")
			assert.NoError(c, r.certificates.Ready(nil))
		})
		t.Logf("without %v: another certificate after %s", keys, time.Since(begin).Round(time.Millisecond))
	}
	cancel()
	<-done
	t.Logf("%d pods", created.Load())
	require.Zero(t, failed.Load())
	for line := range strings.Lines(logs.text()) {
		require.NotContains(t, line, "PRIVATE KEY")
		require.NotContains(t, line, base64.StdEncoding.EncodeToString([]byte("-----BEGIN RSA PRIVATE")))
	}

	secret := &corev1.Secret{}
	require.NoError(t, live.admin.Get(t.Context(), secretKey, secret))
	require.Contains(t, string(secret.Data["tls.key"]), "PRIVATE KEY")
	m := mutating()
	require.NoError(t, live.admin.Get(t.Context(), client.ObjectKeyFromObject(m), m))
	require.NotContains(t, string(m.Webhooks[0].ClientConfig.CABundle), "PRIVATE KEY")
}

func TestADeletedSecretIsMadeAnew(t *testing.T) {
	clean(t)
	r, _ := run(t, "", false)
	r.awaitReady(t)
	before := r.served
	secret := &corev1.Secret{}
	require.NoError(t, live.admin.Get(t.Context(), secretKey, secret))
	eventually(t, func(c *assert.CollectT) { before(c) })
	old := r.served(t)
	require.NoError(t, live.admin.Delete(t.Context(), secret))
	eventually(t, func(c *assert.CollectT) {
		assert.False(c, r.served(c).Equal(old))
		assert.NoError(c, r.certificates.Ready(nil))
	})
}

// Both replicas serve what the leader made, and the second goes on when the first has stopped.
func TestReplicasServeOneCertificateThatTheLeaderRenews(t *testing.T) {
	clean(t)
	first, stopFirst := run(t, "", true)
	eventually(t, func(c *assert.CollectT) { assert.NoError(c, first.certificates.Ready(nil)); first.served(c) })
	second, _ := run(t, "https://"+net.JoinHostPort("localhost", port(t, first.address)), true)
	second.awaitReady(t)
	require.True(t, first.served(t).Equal(second.served(t)))
	select {
	case <-second.elected:
		t.Fatal("two leaders")
	default:
	}

	old := first.served(t)
	forget(t, "ca.crt", "tls.crt")
	eventually(t, func(c *assert.CollectT) {
		assert.False(c, first.served(c).Equal(old))
		assert.True(c, first.served(c).Equal(second.served(c)))
		assert.NoError(c, first.certificates.Ready(nil))
		assert.NoError(c, second.certificates.Ready(nil))
	})

	stopFirst()
	<-second.elected
	old = second.served(t)
	forget(t, "tls.crt")
	eventually(t, func(c *assert.CollectT) { assert.False(c, second.served(c).Equal(old)) })
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return port
}

func TestTheLeaderRepairsWhatOthersRemove(t *testing.T) {
	clean(t)
	r, _ := run(t, "", false)
	r.awaitReady(t)
	eventually(t, func(c *assert.CollectT) { r.served(c) })
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: fence.BindingsName}}
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: fence.KeepOutName}}
	for _, object := range []client.Object{binding, policy, validating(), mutating()} {
		t.Run(fmt.Sprintf("%T", object), func(t *testing.T) {
			key := client.ObjectKeyFromObject(object)
			begin := time.Now()
			require.NoError(t, live.admin.Delete(t.Context(), object))
			eventually(t, func(c *assert.CollectT) { assert.NoError(c, live.admin.Get(t.Context(), key, object)) })
			t.Logf("there again after %s", time.Since(begin).Round(time.Millisecond))
		})
	}
	// At rest nothing is written: what is written once more would have another version.
	versions := func() map[string]string {
		all := map[string]string{}
		for _, object := range []client.Object{binding, policy, validating(), mutating(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}}} {
			require.NoError(t, live.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			all[object.GetName()] = object.GetResourceVersion()
		}
		return all
	}
	before := versions()
	require.NoError(t, r.registrar.Repair(t.Context()))
	time.Sleep(2 * time.Second)
	require.Equal(t, before, versions())
}

func TestNothingIsServedBeforeThereIsACertificate(t *testing.T) {
	certificates := serve.NewCertificates(serve.CertificateOptions{Secret: secretKey, Endpoint: service})
	_, err := certificates.GetCertificate(nil)
	require.ErrorIs(t, err, serve.ErrCertificateNotReady)
	require.ErrorIs(t, certificates.Ready(nil), serve.ErrCertificateNotReady)
	require.True(t, certificates.NotAfter().IsZero())
}

// An operator without the right to the Secret says so, is not ready, and goes on with everything else.
func TestWithoutTheRightToTheSecretTheOperatorGoesOn(t *testing.T) {
	clean(t)
	config := live.plane.AsUser("nobody")
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: newScheme(t), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	require.NoError(t, err)
	certificates := serve.NewCertificates(serve.CertificateOptions{
		Secret: secretKey, Endpoint: service, ControllerName: fmt.Sprintf("certificates-%d", replicas.Add(1)),
	})
	require.NoError(t, certificates.SetupWithManager(mgr))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.NoError(t, mgr.Start(ctx), "it ended by itself")
	require.ErrorIs(t, certificates.Ready(nil), serve.ErrCertificateNotReady)
	require.True(t, apierrors.IsNotFound(live.admin.Get(after(t), secretKey, &corev1.Secret{})))
}
