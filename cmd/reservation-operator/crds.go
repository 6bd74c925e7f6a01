package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/patch"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

// crdRetry is how often missing CRDs are looked for.
const crdRetry = 5 * time.Second

// awaitCRDs waits until the API server serves the operator's kinds. An operator that is installed before them, or
// without them, is alive and not ready meanwhile, says what is missing in its log and, if that kind is there, on every
// ReservationSource. An error means that the context ended or the API server could not be asked at all.
func awaitCRDs(ctx context.Context, config *rest.Config, o Options) error {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	missing, err := missingCRDs(d)
	if err != nil || len(missing) == 0 {
		return err
	}
	waiting := &http.Server{Addr: o.Manager.HealthAddress, Handler: aliveNotReady(), ReadHeaderTimeout: time.Second}
	go func() {
		if err := waiting.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			ctrl.Log.Error(err, "no health endpoint while waiting for the CRDs")
		}
	}()
	defer waiting.Close()
	for len(missing) > 0 {
		ctrl.Log.Info("CRDs are missing; install them with: kubectl apply -k config/crd", "missing", missing)
		if err := sayMissing(ctx, config, missing); err != nil {
			ctrl.Log.Error(err, "the sources could not be told")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(crdRetry):
		}
		if missing, err = missingCRDs(d); err != nil {
			ctrl.Log.Error(err, "asking which kinds are served")
			missing = []string{"unknown"}
		}
	}
	return nil
}

// missingCRDs returns the plural names of the operator's kinds that are not served.
func missingCRDs(d discovery.DiscoveryInterface) ([]string, error) {
	served := map[string]bool{}
	resources, err := d.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("asking the API server which kinds it serves: %w", err)
	}
	if resources != nil {
		for _, r := range resources.APIResources {
			served[r.Name] = true
		}
	}
	var missing []string
	for _, name := range []string{"reservations", "reservationbindings", "reservationsources"} {
		if !served[name] {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// sayMissing marks every ReservationSource, if that kind is served.
func sayMissing(ctx context.Context, config *rest.Config, missing []string) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	var sources v1alpha1.ReservationSourceList
	if err := c.List(ctx, &sources); err != nil {
		if apierrors.IsNotFound(err) || strings.Contains(strings.Join(missing, " "), "reservationsources") {
			return nil
		}
		return err
	}
	for i := range sources.Items {
		source := &sources.Items[i]
		patcher := patch.NewSerialPatcher(source, c)
		report.Stalled(v1alpha1.ReasonCRDMissing, "the API server does not serve "+strings.Join(missing, ", ")+
			"; install the CRDs with: kubectl apply -k config/crd", crdRetry).Mark(source)
		if err := patcher.Patch(ctx, source, patch.WithFieldOwner(v1alpha1.FieldManager)); err != nil {
			return err
		}
	}
	return nil
}

func aliveNotReady() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the CRDs are missing", http.StatusServiceUnavailable)
	})
	return mux
}
