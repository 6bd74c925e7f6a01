package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/cluster"
)

// admission measures the creation of a pod that is injected by the webhook against one in a namespace without
// bindings, in turn; then against one that an empty webhook allows as it is, which is what any webhook costs here.
func admission(ctx context.Context) error {
	c, err := cluster.Start(ctx, cluster.Options{Bare: true})
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := c.Operator.Start(ctx); err != nil {
		return err
	}
	if err := bound(ctx, c, "bound"); err != nil {
		return err
	}
	for _, name := range []string{"plain", "empty"} {
		if err := namespace(ctx, c, name); err != nil {
			return err
		}
	}
	created := 0
	against := func(other string) func(int, bool) (func() error, error) {
		return func(_ int, ours bool) (func() error, error) {
			created++
			p := benchPod(other, created)
			if ours {
				p = benchPod("bound", created)
			}
			return func() error { return c.Client.Create(ctx, p) }, nil
		}
	}
	if err := compare("pod_create_webhook_p50", time.Millisecond, against("plain")); err != nil {
		return err
	}
	stop, err := emptyWebhook(ctx, c, "empty")
	if err != nil {
		return err
	}
	defer stop()
	return compare("pod_create_over_empty_webhook_p50", time.Millisecond, against("empty"))
}

// emptyWebhook has a webhook called for every pod of a namespace that allows all as it is, and returns how to end its
// server.
func emptyWebhook(ctx context.Context, c *cluster.Cluster, namespace string) (stop func(), err error) {
	server := httptest.NewUnstartedServer(&webhook.Webhook{Handler: webhook.HandlerFunc(
		func(context.Context, webhook.Request) webhook.Response { return webhook.Allowed("") })})
	server.EnableHTTP2 = true
	server.StartTLS()
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	err = c.Client.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "empty"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "empty.bench.example", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	})
	time.Sleep(3 * time.Second) // the API server takes a moment to see it
	return server.Close, err
}

// bind measures the binding of a pod with the fences over an index of 10,000 nodes of 1,000 Reservations, against the
// same in a namespace that is exempt from them, in turn.
func bind(ctx context.Context) error {
	f, err := newFleet(ctx, 10000, "--exempt-namespaces", "exempt")
	if err != nil {
		return err
	}
	defer f.Stop()
	if err := namespace(ctx, f.Cluster, "exempt"); err != nil {
		return err
	}
	return compare("bind_fences_10000_nodes_p50", time.Millisecond, func(i int, ours bool) (func() error, error) {
		p := benchPod("exempt", i)
		if ours {
			p = benchPod(fleetTenant, i)
		}
		bind := func() error {
			return f.Client.SubResource("binding").Create(ctx, p, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
				Target:     corev1.ObjectReference{Kind: "Node", Name: f.nodes[i]},
			})
		}
		return bind, f.Client.Create(ctx, p)
	})
}

// compare times ours and the baseline in turn, 300 times each after a warm-up, and prints the added p50. Prepare does
// what is not timed and returns what is.
func compare(name string, goal time.Duration, prepare func(i int, ours bool) (timed func() error, err error)) error {
	const warm, counted = 30, 300
	var with, without []time.Duration
	for i := range warm + counted {
		for _, ours := range []bool{true, false} {
			timed, err := prepare(i, ours)
			if err != nil {
				return err
			}
			began := time.Now()
			if err := timed(); err != nil {
				return err
			}
			took := time.Since(began)
			switch {
			case i < warm:
			case ours:
				with = append(with, took)
			default:
				without = append(without, took)
			}
		}
	}
	o, b := median(with), median(without)
	figure(name, o.Round(10*time.Microsecond).String(), b.Round(10*time.Microsecond).String(), ratio(o, b),
		fmt.Sprintf("+%s,added=%s", goal, (o-b).Round(10*time.Microsecond)), o-b <= goal)
	return nil
}

// bound makes a namespace with a tenant, a Reservation without nodes and a binding of every pod, and waits until it
// is ready.
func bound(ctx context.Context, c *cluster.Cluster, name string) error {
	if err := namespace(ctx, c, name); err != nil {
		return err
	}
	b := &v1alpha1.ReservationBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name},
		Spec:       v1alpha1.ReservationBindingSpec{ReservationName: name, PodSelector: &metav1.LabelSelector{}},
	}
	for _, o := range []client.Object{
		&v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ReservationSpec{Tenant: name, ReservedNodes: []string{}}},
		b,
	} {
		if err := c.Client.Create(ctx, o); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		if conditions.IsReady(b) {
			return nil
		}
	}
	return fmt.Errorf("binding %s is not ready: %s", name, conditions.GetMessage(b, v1alpha1.ConditionReady))
}

func namespace(ctx context.Context, c *cluster.Cluster, name string) error {
	return c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func benchPod(namespace string, i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pod-%05d", i)},
		Spec: corev1.PodSpec{
			SchedulerName: "none", AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{Name: "main", Image: "trainer:v1"}},
		},
	}
}
