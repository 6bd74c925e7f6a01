package v1alpha1

// Conditions of the three kinds. Ready, Reconciling and Stalled follow kstatus: Reconciling and Stalled never stand
// together, and neither stands on an object that is done.
const (
	// ConditionReady: what the spec asks for is so.
	ConditionReady = "Ready"
	// ConditionReconciling: the operator is at work or tries again.
	ConditionReconciling = "Reconciling"
	// ConditionStalled: nothing more happens until a person changes something.
	ConditionStalled = "Stalled"
	// ConditionFenceIntact (Reservation): the API server was seen to refuse foreign pods on reserved nodes.
	ConditionFenceIntact = "FenceIntact"
	// ConditionExclusive (Reservation): no foreign pod runs on a locked node.
	ConditionExclusive = "Exclusive"
)
