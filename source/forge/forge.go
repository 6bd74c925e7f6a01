package forge

import (
	"context"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// State is what a commit status can say.
type State string

const (
	// Pending: from the fetch until the nodes have converged.
	Pending State = "pending"
	// Success: every node that the commit locks is locked, and every node that it releases is free.
	Success State = "success"
	// Failure: the commit was rejected, or could not be applied yet.
	Failure State = "failure"
)

// Reporter tells a forge what became of a commit.
type Reporter interface {
	// Report posts a state with a sentence that has no secrets and any length. It is called once per change of state
	// or sentence, and again after a restart of the operator, so it must not post twice what the forge has already.
	// It may block, for as long as ctx allows; it must not keep or change the source. An error is logged and holds
	// up nothing.
	Report(ctx context.Context, source *v1alpha1.ReservationSource, revision string, state State, text string) error
}
