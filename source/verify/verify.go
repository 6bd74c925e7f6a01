package verify

import (
	"context"

	"github.com/reservation-operator/reservation-operator/source/fetch"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// Verifier looks at a commit before it is rendered. Findings reject the commit; an error is what is not the commit's
// fault, such as ctx being done. It must not keep the commit, whose files go away.
type Verifier func(ctx context.Context, commit *fetch.Commit) ([]render.Finding, error)

// Accept is the Verifier that trusts every commit of the branch.
func Accept(context.Context, *fetch.Commit) ([]render.Finding, error) { return nil, nil }
