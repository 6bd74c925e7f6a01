package v1alpha1

// Reasons of conditions and events: the whole list. A reason says in one word what kind of thing happened; the
// message beside it says what, where and what to do. docs/reference/reasons.md explains each.
const (
	// Any kind.
	ReasonSucceeded            = "Succeeded"
	ReasonProgressing          = "Progressing"
	ReasonProgressingWithRetry = "ProgressingWithRetry"
	ReasonSuspended            = "Suspended"

	// Reservation: nodes.
	ReasonNodesPending        = "NodesPending"
	ReasonNodesReleasing      = "NodesReleasing"
	ReasonNodePatchForbidden  = "NodePatchForbidden"
	ReasonNodePatchFailed     = "NodePatchFailed"
	ReasonTaintConflict       = "TaintConflict"
	ReasonReleaseStarted      = "ReleaseStarted"
	ReasonReleaseBlocked      = "ReleaseBlocked"
	ReasonBudgetConflict      = "BudgetConflict"
	ReasonNodeUnreachable     = "NodeUnreachable"
	ReasonLockRemoved         = "LockRemoved"
	ReasonNodeReleased        = "NodeReleased"
	ReasonReleaseAborted      = "ReleaseAborted"
	ReasonForeignPods         = "ForeignPods"
	ReasonExclusive           = "Exclusive"
	ReasonFenceProven         = "FenceProven"
	ReasonFenceNotProven      = "FenceNotProven"
	ReasonInvalidNodeSelector = "InvalidNodeSelector"

	// ReservationBinding.
	ReasonReservationNotFound    = "ReservationNotFound"
	ReasonNamespaceNotAccepted   = "NamespaceNotAccepted"
	ReasonInvalidPodSelector     = "InvalidPodSelector"
	ReasonRegistrationFailed     = "RegistrationFailed"
	ReasonCertificateNotReady    = "CertificateNotReady"
	ReasonReservationTerminating = "ReservationTerminating"

	// ReservationSource: fetch.
	ReasonInvalidURL              = "InvalidURL"
	ReasonSecretNotFound          = "SecretNotFound"
	ReasonInvalidCredentials      = "InvalidCredentials"
	ReasonAuthenticationFailed    = "AuthenticationFailed"
	ReasonRepositoryUnreachable   = "RepositoryUnreachable"
	ReasonRepositoryNotFound      = "RepositoryNotFound"
	ReasonRepositoryEmpty         = "RepositoryEmpty"
	ReasonBranchNotFound          = "BranchNotFound"
	ReasonHostKeyMismatch         = "HostKeyMismatch"
	ReasonUnknownHost             = "UnknownHost"
	ReasonUnsupportedObjectFormat = "UnsupportedObjectFormat"
	ReasonCommitTooLarge          = "CommitTooLarge"
	ReasonFetchFailed             = "FetchFailed"

	// ReservationSource: render, check, apply.
	ReasonPathNotFound   = "PathNotFound"
	ReasonRenderFailed   = "RenderFailed"
	ReasonCommitRejected = "CommitRejected"
	ReasonApplyFailed    = "ApplyFailed"
	ReasonCRDMissing     = "CRDMissing"
	ReasonForbidden      = "Forbidden"
	ReasonCommitApplied  = "CommitApplied"
	ReasonConverging     = "Converging"
)
