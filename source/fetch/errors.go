package fetch

// Reason is why nothing was fetched: one CamelCase word of a closed list, fit
// for a condition's reason.
type Reason string

// The reasons. Reasons says which of them there are.
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
	// UnknownHost: known_hosts has no entry for the ssh server.
	UnknownHost Reason = "UnknownHost"
	// UnsupportedObjectFormat: a SHA-256 repository.
	UnsupportedObjectFormat Reason = "UnsupportedObjectFormat"
	// CommitTooLarge: the commit is beyond the Limits.
	CommitTooLarge Reason = "CommitTooLarge"
	// FetchFailed: anything else.
	FetchFailed Reason = "FetchFailed"
)

// Error is what every function of this package returns on failure.
type Error struct {
	// Reason is the condition's reason.
	Reason Reason
	// Message says what is wrong, where, and what to do. One line, bounded,
	// without credentials.
	Message string
	// Err is the cause, if it has an identity that a caller may ask for
	// (context.Canceled, context.DeadlineExceeded), else its scrubbed text, or
	// nil.
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
