package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// GitReference says which commit of the repository is meant. Without one, it is the head of the remote's default
// branch.
//
// +kubebuilder:validation:XValidation:rule="!has(self.tag) && !has(self.semver) && !has(self.name) && !has(self.commit)",message="tag, semver, name and commit are not supported yet; use branch"
type GitReference struct {
	// A branch; its head is applied.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Branch string `json:"branch,omitempty"`
	// A tag. Not supported yet.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Tag string `json:"tag,omitempty"`
	// A range of semantic versions; the newest matching tag is applied. Not supported yet.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	SemVer string `json:"semver,omitempty"`
	// The full name of a reference, such as refs/heads/main. Not supported yet.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Name string `json:"name,omitempty"`
	// A commit. Not supported yet.
	//
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]+$`
	// +optional
	Commit string `json:"commit,omitempty"`
}

// LocalReference names a Secret in the operator's namespace.
type LocalReference struct {
	// The name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// Verification says whose commits are applied. Not supported yet.
type Verification struct {
	// The Secret, in the operator's namespace, that holds the trusted public keys, one a data key.
	//
	// +required
	SecretRef LocalReference `json:"secretRef"`
	// Who may change what; without rules every trusted signer may change everything.
	//
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Rules []VerificationRule `json:"rules,omitempty"`
}

// VerificationRule maps paths to the signers that may change them.
type VerificationRule struct {
	// Path globs from the repository's root, such as tenants/tenant-foo/**.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +required
	Paths []string `json:"paths"`
	// Data keys of the Secret.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +required
	Signers []string `json:"signers"`
}

// CommitStatus says where the outcome of a commit is posted. Not supported yet.
type CommitStatus struct {
	// The forge that hosts the repository.
	//
	// +kubebuilder:validation:Enum=github;gitlab;gitea;bitbucket;azuredevops
	// +required
	Provider string `json:"provider"`
	// The Secret, in the operator's namespace, that holds the forge's token.
	//
	// +required
	SecretRef LocalReference `json:"secretRef"`
	// The name of the status; reservations/<source> by default.
	//
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Context string `json:"context,omitempty"`
}

// PullRequests says which pull requests get a plan. Not supported yet.
type PullRequests struct {
	// Whether pull requests from forks are rendered.
	//
	// +optional
	AllowForks bool `json:"allowForks,omitempty"`
}

// DeletionPolicy says what happens to a source's objects when the source is deleted.
//
// +kubebuilder:validation:Enum=Orphan;Release
type DeletionPolicy string

const (
	// DeletionOrphan leaves the objects and their nodes as they are.
	DeletionOrphan DeletionPolicy = "Orphan"
	// DeletionRelease deletes the objects, so that their nodes are released.
	DeletionRelease DeletionPolicy = "Release"
)

// ReservationSourceSpec says where a tenants' repository is and how its commits are applied.
//
// +kubebuilder:validation:XValidation:rule="!has(self.verify)",fieldPath=".verify",message="not supported yet; leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.deletionPolicy) || self.deletionPolicy == 'Orphan'",fieldPath=".deletionPolicy",message="Release is not supported yet; use Orphan and delete the Reservations by a commit first"
// +kubebuilder:validation:XValidation:rule="!has(self.maxReleasedNodes)",fieldPath=".maxReleasedNodes",message="not supported yet; leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.commitStatus)",fieldPath=".commitStatus",message="not supported yet; leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.pullRequests)",fieldPath=".pullRequests",message="not supported yet; leave it out"
type ReservationSourceSpec struct {
	// The repository: https://, http://, ssh:// or user@host:path, file:// or an absolute path on the operator's
	// machine. It must not contain a user's password or token; name a Secret instead.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^(https?://|ssh://|file://|/|[^/:@ ]+@[^/: ]+:)')",message="must begin with https://, http://, ssh://, user@host:, file:// or /"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^https?://[^/]*@')",message="must not contain credentials; put them into a Secret and name it in secretRef"
	// +required
	URL string `json:"url"`

	// Which commit; the head of the remote's default branch if left out.
	//
	// +optional
	Ref *GitReference `json:"ref,omitempty"`

	// The folder of the repository that is rendered; its root if left out. It must be a clean relative path.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="must be a path inside the repository, relative to its root, without .."
	// +optional
	Path string `json:"path,omitempty"`

	// How often the repository is asked for news, such as 1m; at least 500ms.
	//
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('500ms')",message="must be a duration of at least 500ms"
	// +optional
	Interval metav1.Duration `json:"interval,omitzero"`

	// How long one exchange with the repository may take.
	//
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be a positive duration such as 60s"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// Whether to leave everything as it is until this is unset: nothing is fetched, applied or pruned.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// The Secret, in the operator's namespace, with the credentials, laid out as Flux does: username and password,
	// bearerToken, ca.crt, tls.crt and tls.key for http; identity, known_hosts and password for ssh.
	//
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`

	// Whose commits are applied. Not supported yet.
	//
	// +optional
	Verify *Verification `json:"verify,omitempty"`

	// Whether objects that a commit no longer contains are deleted.
	//
	// +kubebuilder:default=true
	// +optional
	Prune *bool `json:"prune,omitempty"`

	// What happens to the objects when this source is deleted. Orphan leaves them; Release, which is not supported
	// yet, deletes them.
	//
	// +kubebuilder:default=Orphan
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Whether a commit without a single object is applied. Without this it is rejected, since it would release
	// every node.
	//
	// +optional
	AllowEmpty bool `json:"allowEmpty,omitempty"`

	// The most nodes, as a number or a percentage, that one commit may release without approval. Not supported yet.
	//
	// +optional
	MaxReleasedNodes *intstr.IntOrString `json:"maxReleasedNodes,omitempty"`

	// Where the outcome of a commit is posted. Not supported yet.
	//
	// +optional
	CommitStatus *CommitStatus `json:"commitStatus,omitempty"`

	// Which pull requests get a plan. Not supported yet.
	//
	// +optional
	PullRequests *PullRequests `json:"pullRequests,omitempty"`
}

// Outcome says in one word what became of a commit.
//
// +kubebuilder:validation:Enum=Applied;Rejected;Held;Failed
type Outcome string

const (
	// OutcomeApplied: every object of the commit is in the cluster.
	OutcomeApplied Outcome = "Applied"
	// OutcomeRejected: the commit is wrong and changed nothing.
	OutcomeRejected Outcome = "Rejected"
	// OutcomeHeld: the commit would release too much and waits for approval; it changed nothing.
	OutcomeHeld Outcome = "Held"
	// OutcomeFailed: applying was begun and did not end; it is tried again.
	OutcomeFailed Outcome = "Failed"
)

// InventoryEntry is one object that a source owns.
type InventoryEntry struct {
	// The object's API group; empty for the core group.
	//
	// +optional
	Group string `json:"group,omitempty"`
	// The object's API version, without the group.
	Version string `json:"version"`
	// The object's kind.
	Kind string `json:"kind"`
	// The object's namespace; empty for cluster-scoped kinds.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// The object's name.
	Name string `json:"name"`
}

// HistoryEntry is the record of one commit.
type HistoryEntry struct {
	// The commit, such as main@sha1:….
	Revision string `json:"revision"`
	// Who wrote the commit, without the address.
	//
	// +optional
	Author string `json:"author,omitempty"`
	// When the commit was written.
	//
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// The first line of its message.
	//
	// +optional
	Subject string `json:"subject,omitempty"`
	// The commit that it reverts.
	//
	// +optional
	Reverts string `json:"reverts,omitempty"`
	// When its outcome was reached.
	//
	// +optional
	AppliedAt *metav1.Time `json:"appliedAt,omitempty"`
	// What became of it.
	Outcome Outcome `json:"outcome"`
	// When every node that it locks was locked and every node that it releases was free.
	//
	// +optional
	ConvergedAt *metav1.Time `json:"convergedAt,omitempty"`
	// Objects that it created.
	//
	// +optional
	Created int32 `json:"created,omitempty"`
	// Objects that it changed.
	//
	// +optional
	Changed int32 `json:"changed,omitempty"`
	// Objects that it deleted.
	//
	// +optional
	Deleted int32 `json:"deleted,omitempty"`
	// Nodes that it locks.
	//
	// +optional
	NodesLocked int32 `json:"nodesLocked,omitempty"`
	// Nodes that it releases.
	//
	// +optional
	NodesReleased int32 `json:"nodesReleased,omitempty"`
	// What happened, in a sentence or a few.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// ReservationSourceStatus says what became of the repository's commits.
type ReservationSourceStatus struct {
	// The generation of the spec that the status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready, Reconciling and Stalled.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The last commit that was looked at.
	//
	// +optional
	LastAttemptedRevision string `json:"lastAttemptedRevision,omitempty"`

	// The last commit that was applied.
	//
	// +optional
	LastAppliedRevision string `json:"lastAppliedRevision,omitempty"`

	// The SHA-256 of the objects that the last commit that was applied renders to, "sha256:" and hexadecimal. The same
	// commit renders to others where the path of the spec changed.
	//
	// +kubebuilder:validation:MaxLength=71
	// +optional
	LastAppliedDigest string `json:"lastAppliedDigest,omitempty"`

	// The value of the annotation reconcile.fluxcd.io/requestedAt that was last answered.
	//
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// The objects that this source owns, sorted: those of the last applied commit and, while one is being applied,
	// those of both.
	//
	// +optional
	Inventory []InventoryEntry `json:"inventory,omitempty"`

	// The last 20 commits, newest first: an entry per commit, whatever it rendered to.
	//
	// +optional
	History []HistoryEntry `json:"history,omitempty"`
}

// ReservationSource is a tenants' Git repository. Each new commit of it is rendered, checked as a whole and applied:
// all of it or nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of a ReservationSource becomes a label of its objects, so it may have at most 63 characters"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rsvsrc
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.lastAppliedRevision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,priority=1,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ReservationSource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Where the repository is and how its commits are applied.
	//
	// +required
	Spec ReservationSourceSpec `json:"spec"`
	// What became of the repository's commits.
	//
	// +optional
	Status ReservationSourceStatus `json:"status,omitempty,omitzero"`
}

// Branch returns the branch to follow; empty means the remote's default branch.
func (s *ReservationSource) Branch() string {
	if s.Spec.Ref == nil {
		return ""
	}
	return s.Spec.Ref.Branch
}

// Prunes reports whether objects that a commit no longer contains are deleted (true by default).
func (s *ReservationSource) Prunes() bool {
	return s.Spec.Prune == nil || *s.Spec.Prune
}

// GetConditions returns the conditions of the status.
func (s *ReservationSource) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (s *ReservationSource) SetConditions(c []metav1.Condition) { s.Status.Conditions = c }

// ReservationSourceList is a list of ReservationSources.
//
// +kubebuilder:object:root=true
type ReservationSourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ReservationSource `json:"items"`
}
