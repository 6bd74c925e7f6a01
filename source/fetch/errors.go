package fetch

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Reason is why nothing was fetched: one CamelCase word of a closed list, fit
// for a condition's reason.
type Reason string

// The closed list. [Reasons] returns all of it.
const (
	// InvalidURL: the address cannot be used as written.
	InvalidURL Reason = "InvalidURL"
	// InvalidCredentials: the Secret is malformed, incomplete or of another kind
	// than the address needs.
	InvalidCredentials Reason = "InvalidCredentials"
	// AuthenticationFailed: the remote refused who we are.
	AuthenticationFailed Reason = "AuthenticationFailed"
	// RepositoryUnreachable: nobody answered, or not in time, or not now.
	RepositoryUnreachable Reason = "RepositoryUnreachable"
	// RepositoryNotFound: the remote answered that there is no such repository.
	RepositoryNotFound Reason = "RepositoryNotFound"
	// RepositoryEmpty: the repository has no commits.
	RepositoryEmpty Reason = "RepositoryEmpty"
	// BranchNotFound: the branch does not exist, or none was named and the
	// remote's HEAD names none that exists.
	BranchNotFound Reason = "BranchNotFound"
	// HostKeyMismatch: the ssh server's key is not the one in known_hosts.
	HostKeyMismatch Reason = "HostKeyMismatch"
	// UnknownHost: known_hosts is missing, or has no entry for the ssh server.
	UnknownHost Reason = "UnknownHost"
	// UnsupportedObjectFormat: a SHA-256 repository.
	UnsupportedObjectFormat Reason = "UnsupportedObjectFormat"
	// CommitTooLarge: the commit is beyond the Limits.
	CommitTooLarge Reason = "CommitTooLarge"
	// FetchFailed: anything else.
	FetchFailed Reason = "FetchFailed"
)

// stalled are the reasons that no retry cures.
var stalled = map[Reason]bool{
	InvalidURL:              true,
	InvalidCredentials:      true,
	AuthenticationFailed:    true,
	RepositoryUnreachable:   false,
	RepositoryNotFound:      true,
	RepositoryEmpty:         true,
	BranchNotFound:          true,
	HostKeyMismatch:         true,
	UnknownHost:             true,
	UnsupportedObjectFormat: true,
	CommitTooLarge:          true,
	FetchFailed:             false,
}

// Reasons returns the closed list, in no particular order, in a new slice.
func Reasons() []Reason {
	reasons := make([]Reason, 0, len(stalled))
	for r := range stalled {
		reasons = append(reasons, r)
	}
	return reasons
}

// Error is what every function of this package returns on failure.
type Error struct {
	// Reason is the condition's reason.
	Reason Reason
	// Message says what is wrong, where, and what to do. One line, at most
	// 1,024 bytes, without credentials.
	Message string
	// Err is the cause when it has an identity that a caller may ask for
	// (context.Canceled, context.DeadlineExceeded), else nil.
	Err error
	// Stalled says that a person must act: trying again soon does not help. The
	// cure may be on the remote (a push, a renamed branch), so the caller looks
	// again at its ordinary interval, but does not back off and retry.
	Stalled bool
}

// Error is the Message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func fail(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...), Stalled: stalled[reason]}
}

const maxMessage = 1024

// cannotReach takes the URL and the cause.
const cannotReach = "%s cannot be reached: %v: it is tried again; check the URL's host and port, DNS, and that network policies let the operator out"

// finish turns any error of the inside into the one *Error of the outside:
// given a reason, without what the Secret holds, on one line, bounded. A done
// context wins over what it made fail.
func finish(ctx context.Context, err error, where string, secrets []string) error {
	if err == nil {
		return nil
	}
	var e *Error
	switch ctxErr := ctx.Err(); {
	case errors.Is(ctxErr, context.DeadlineExceeded):
		e = fail(RepositoryUnreachable, "%s did not answer in time: check that it can be reached from the cluster, or raise the timeout", where)
		e.Err = ctxErr
	case ctxErr != nil:
		e = fail(FetchFailed, "fetching from %s was cancelled", where)
		e.Err = ctxErr
	case !errors.As(err, &e):
		e = fail(FetchFailed, "fetching from %s: %v", where, err)
	}
	clean := *e
	clean.Message = bounded(oneLine(scrub(e.Message, secrets)), maxMessage)
	return &clean
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}

// bounded cuts s to at most n bytes, at a rune.
func bounded(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const more = "…"
	return strings.ToValidUTF8(s[:n-len(more)], "") + more
}
