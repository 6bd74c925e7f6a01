package fence

import (
	"context"
	"errors"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNotEnforced means that a pod which the fence must refuse was admitted.
var ErrNotEnforced = errors.New("the fence does not stand")

// Probe asks the API server which index its fence enforces.
type Probe struct {
	// Client creates the dry-run pods.
	Client client.Writer
	// Clock paces Await; nil is the real one.
	Clock clock.Clock
}

// Version returns the version of the index that the API server enforces.
func (p Probe) Version(ctx context.Context) (int64, error) { return 0, ErrNotEnforced }

// Await blocks until the enforced index has at least this version.
func (p Probe) Await(ctx context.Context, version int64) error { return ErrNotEnforced }
