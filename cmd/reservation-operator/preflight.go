package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fluxcd/pkg/runtime/patch"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

// preflightRetry is how often the operator looks for what it cannot start without.
const preflightRetry = 5 * time.Second

// preflight is the look at the cluster before anything is started. Without its CRDs or its rights the caches would never
// fill and the process would end, again and again; so it waits instead.
type preflight struct {
	options Options
	typed   kubernetes.Interface
	sources client.Client
}

func newPreflight(config *rest.Config, o Options) (*preflight, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	typed, typedErr := kubernetes.NewForConfig(config)
	sources, err := client.New(config, client.Options{Scheme: scheme})
	if err := errors.Join(typedErr, err); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &preflight{options: o, typed: typed, sources: sources}, nil
}

// await blocks until the API server serves the operator's kinds and gives it the rights that it cannot live without.
// Meanwhile the operator is alive and not ready, and says what is missing in its log and, where it can, on every
// ReservationSource. The only error is that the context ended.
func (p *preflight) await(ctx context.Context) error {
	var serving bool
	var missing atomic.Value
	for {
		found, err := p.look(ctx)
		switch {
		case err != nil:
			ctrl.Log.Error(err, "looking at the cluster; it is tried again")
			missing.Store(err.Error())
		case found.OK():
			return nil
		default:
			ctrl.Log.Info("the operator cannot start yet", "reason", found.Reason(), "missing", found.Message())
			missing.Store(found.Message())
			if err := p.tell(ctx, found); err != nil {
				ctrl.Log.Error(err, "the sources could not be told")
			}
		}
		if !serving {
			serving = true
			defer serveNotReady(p.options.Manager.HealthAddress, &missing).Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(preflightRetry):
		}
	}
}

// look returns Done, or what a person must do. An error means that the API server could not be asked.
func (p *preflight) look(ctx context.Context) (report.Outcome, error) {
	kinds, err := missingCRDs(p.typed.Discovery())
	if err != nil {
		return report.Outcome{}, err
	}
	if len(kinds) > 0 {
		return report.Stalled(v1alpha1.ReasonCRDMissing, crdsMessage(kinds), preflightRetry), nil
	}
	rights, err := missingRights(ctx, p.typed, needed(p.options.LeaderElection.Enable))
	if err != nil {
		return report.Outcome{}, err
	}
	if len(rights) > 0 {
		user, err := whoAmI(ctx, p.typed)
		return report.Stalled(v1alpha1.ReasonForbidden, rightsMessage(rights, user), preflightRetry), err
	}
	return report.Done(""), nil
}

// tell marks every ReservationSource, if that kind is served. One that is suspended keeps its conditions, as the
// reconciler would have it.
func (p *preflight) tell(ctx context.Context, found report.Outcome) error {
	var all v1alpha1.ReservationSourceList
	if err := p.sources.List(ctx, &all); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	for i := range all.Items {
		source := &all.Items[i]
		if source.Spec.Suspend {
			continue
		}
		patcher := patch.NewSerialPatcher(source, p.sources)
		found.Mark(source)
		if err := patcher.Patch(ctx, source, patch.WithFieldOwner(v1alpha1.FieldManager)); err != nil {
			return err
		}
	}
	return nil
}

// serveNotReady answers the kubelet until the manager does: alive, and not ready because of what is missing. Address
// is the flag's; empty or 0 serves nothing.
func serveNotReady(address string, missing *atomic.Value) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, missing.Load().(string), http.StatusServiceUnavailable)
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Second}
	if address == "" || address == "0" {
		return server
	}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			ctrl.Log.Error(err, "no health endpoint while the operator waits")
		}
	}()
	return server
}
