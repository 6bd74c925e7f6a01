package serve

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrCertificateNotReady means that there is no CA yet with which to register the webhooks. The fences stand.
var ErrCertificateNotReady = errors.New("the webhook certificate is not ready")

// Fence installs the admission policies; fence.Installer is one.
type Fence interface {
	// Ensure makes the live policies those for these namespaces with accepted bindings.
	Ensure(ctx context.Context, bound []string) error
}

// Registrar keeps fences and webhook configurations equal to what the namespaces with accepted bindings ask for.
type Registrar struct {
	// Client reads live, not through a cache.
	Client client.Client
	// Fence installs the admission policies.
	Fence Fence
	// Endpoint is where the API server finds the webhooks.
	Endpoint Endpoint
	// Secret holds the CA.
	Secret types.NamespacedName
}

// Ensure registers injection for exactly these namespaces and keeps the fences in step. On ErrCertificateNotReady the
// fences are in place and only the registration is missing.
func (r *Registrar) Ensure(ctx context.Context, bound []string) error { return ErrCertificateNotReady }
