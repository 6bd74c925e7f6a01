package v1alpha1

// What the operator writes on a node (spec.md; DESIGN.md, What is on a node).
const (
	// LabelTenant is the node label whose value is the tenant that the node is reserved for.
	LabelTenant = "reserved.tenant"
	// TaintKey is the key of the node taint whose value is the tenant; its effect is the Reservation's.
	TaintKey = "reserved"
	// AnnotationReservation names the Reservation that holds the node.
	AnnotationReservation = Group + "/reservation"
	// AnnotationTaintEffect is the effect of the taint that this operator put on the node; absent without one. A
	// taint of the same key and value with another effect is somebody else's and is left alone.
	AnnotationTaintEffect = Group + "/taint-effect"
	// AnnotationReleasingSince is the time (RFC 3339, UTC) at which the node's release began.
	AnnotationReleasingSince = Group + "/releasing-since"
	// AnnotationCordoned is present only on a node that this operator cordoned; its value is the Reservation for
	// whose release it did so. Without it the operator never uncordons a node.
	AnnotationCordoned = Group + "/cordoned"
)

// What the operator writes on the objects of a source.
const (
	// AnnotationRevision is the revision ("main@sha1:…") that last changed the object.
	AnnotationRevision = Group + "/revision"
	// LabelSource names the ReservationSource that owns the object.
	LabelSource = Group + "/source"
	// AnnotationReconcile with the value "disabled" tells the operator to leave an object as it is (break-glass).
	AnnotationReconcile = Group + "/reconcile"
	// AnnotationReconcileRequest asks for a reconcile at once; any new value is a new request. It is the
	// annotation that Flux uses, so its tools work on a ReservationSource too.
	AnnotationReconcileRequest = "reconcile.fluxcd.io/requestedAt"
)

const (
	// FinalizerRelease keeps a deleted Reservation until its nodes have been released like any others.
	FinalizerRelease = Group + "/release"
	// FinalizerSource keeps a deleted ReservationSource until its deletionPolicy has been carried out.
	FinalizerSource = Group + "/source"
)

// The field managers of the operator's writes: one for the objects that a source applies, one for everything that
// the operator writes on its own account.
const (
	FieldManager       = "reservation-operator"
	FieldManagerSource = "reservation-source"
)

// Names that the operator gives to what it keeps in the cluster.
const (
	// OperatorNamespace is the namespace of the operator, its Secrets and the index (spec.md).
	OperatorNamespace = "reservation-operator"
	// IndexName is the ConfigMap, in the operator's namespace, that says who holds which node (DESIGN.md, From
	// grant to lock). The fences read it; only the operator writes it.
	IndexName = "reservation-index"
	// ProbeNamespace is the namespace of the dry-run pods by which the operator asks whether the fence stands.
	ProbeNamespace = "reservation-fence-probe"
	// ProbeNode is the node name that those pods ask for. The index always lists it and it accepts nobody.
	ProbeNode = "reservation-fence-probe"
)
