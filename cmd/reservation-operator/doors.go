package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/binding"
	"github.com/reservation-operator/reservation-operator/webhook/fence"
	"github.com/reservation-operator/reservation-operator/webhook/inject"
	"github.com/reservation-operator/reservation-operator/webhook/serve"
	"github.com/reservation-operator/reservation-operator/webhook/validate"
)

// door has a certificate that is not ready yet mean to the binding reconciler what it means to the registrar.
type door struct{ *serve.Registrar }

// Ensure implements binding.Door.
func (d door) Ensure(ctx context.Context, bound []string) error {
	err := d.Registrar.Ensure(ctx, bound)
	if errors.Is(err, serve.ErrCertificateNotReady) {
		return fmt.Errorf("%w: %w", binding.ErrNotReady, err)
	}
	return err
}

// whoAmI returns the operator's user name as the API server knows it.
func whoAmI(ctx context.Context, c kubernetes.Interface) (string, error) {
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking the API server who the operator is: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// doors adds what stands at the API server's door: the index that the fences read, the fences, the certificate, the
// webhooks and their registration.
func (w *wiring) doors(ctx context.Context) error {
	typed, err := kubernetes.NewForConfigAndClient(w.GetConfig(), w.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if _, err := allocate.EnsureIndex(ctx, w.live, w.live, v1alpha1.OperatorNamespace, time.Now()); err != nil {
		return err
	}
	keepOut, err := fence.KeepOutServed(typed.Discovery())
	if err != nil {
		return err
	}
	if err := w.certificates.SetupWithManager(w); err != nil {
		return err
	}
	registrar := &serve.Registrar{
		Client:   w.live,
		Fence:    &fence.Installer{Client: w.live, Settings: w.options.fence(keepOut)},
		Endpoint: w.options.endpoint(), Secret: w.options.certificate(),
	}
	if err := registrar.SetupWithManager(w, w.certificates.Changed()); err != nil {
		return err
	}
	if err := (&binding.Reconciler{Client: w.GetClient(), Index: w.view, Door: door{registrar}}).SetupWithManager(w); err != nil {
		return err
	}
	if w.self, err = whoAmI(ctx, typed); err != nil {
		return err
	}
	w.webhooks()
	return w.awaitBindings(ctx)
}

// awaitBindings has every replica, not only the leader, hold the bindings before it answers for them: with a cold cache
// a pod would be let in without injection.
func (w *wiring) awaitBindings(ctx context.Context) error {
	for name, kind := range map[string]client.Object{
		"reservations": &v1alpha1.Reservation{}, "bindings": &v1alpha1.ReservationBinding{},
	} {
		informer, err := w.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %s: %w", name, err)
		}
		if err := w.AddReadyzCheck(name, func(*http.Request) error {
			if !informer.HasSynced() {
				return fmt.Errorf("the %s were not read yet", name)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (w *wiring) webhooks() {
	for path, handler := range map[string]admission.Handler{
		serve.MutatePodsPath:                  inject.NewHandler(inject.NewLookup(w.GetClient())),
		serve.ValidateReservationsPath:        validate.NewReservationHandler(w.GetClient(), w.self),
		serve.ValidateReservationBindingsPath: validate.NewBindingHandler(w.GetAPIReader(), w.self),
	} {
		w.GetWebhookServer().Register(path, &webhook.Admission{Handler: handler})
	}
}
