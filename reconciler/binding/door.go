package binding

import (
	"context"
	"errors"
)

// ErrNotReady is in the chain of a Door's error while there is no certificate yet with which the webhooks could be
// registered. It passes by itself; the fences stand nevertheless.
var ErrNotReady = errors.New("the webhook certificate is not ready yet")

// Door is what is registered at the API server: fences and webhook configurations.
type Door interface {
	// Ensure makes the registered configuration match: the fences always, injection for exactly these namespaces,
	// which come sorted and without repetition. It writes nothing when all is so already, may be called again at any
	// time, blocks while it talks to the API server and ends with ctx. When it returns nil all of it is so; after an
	// error any part may be, and it is called again with back-off. An error with ErrNotReady in its chain means that
	// only the webhooks are missing, because there is no certificate yet.
	Ensure(ctx context.Context, boundNamespaces []string) error
}

// Index is the enforced index, of which this package needs one list. Its methods are safe for concurrent use.
type Index interface {
	// Bound returns the namespaces whose pods keep-out leaves to the webhook, as the API server enforces it, sorted,
	// and false before that is known. The caller does not change what it gets.
	Bound() (namespaces []string, known bool)
	// WatchBound registers a function that is called when the answer changed. It must not block.
	WatchBound(func())
}
