package report

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Event is one event, made by a constructor below so that its text stands in one place. Its text has no counters and
// no times, so that equal events are counted together by the API server's clients.
type Event struct {
	regarding, related runtime.Object
	kind, reason, note string
}

// Emit sends the event. It does not block and reports no error: an event that is lost changes nothing.
func (e Event) Emit(recorder events.EventRecorder) {
	recorder.Eventf(e.regarding, e.related, e.kind, e.reason, e.reason, "%s", e.note)
}

// NodeEvents returns the events that a change of a node is worth: one on the node and, if its Reservation still
// exists (nil if not), one there. Reason is ReleaseStarted, ReleaseAborted or NodeReleased.
func NodeEvents(reason string, node *corev1.Node, reservation *v1alpha1.Reservation) []Event {
	note := map[string]string{
		v1alpha1.ReasonReleaseStarted: "Node %s is being released: it is cordoned and stays reserved until the tenant's pods have ended",
		v1alpha1.ReasonReleaseAborted: "Node %s was claimed again before its release was over and stays reserved",
		v1alpha1.ReasonNodeReleased:   "Node %s was released: its label and taint are off",
	}[reason]
	note = fmt.Sprintf(note, node.Name)
	if reservation == nil {
		return []Event{{regarding: node, kind: corev1.EventTypeNormal, reason: reason, note: note}}
	}
	return []Event{
		{regarding: node, related: reservation, kind: corev1.EventTypeNormal, reason: reason, note: note},
		{regarding: reservation, related: node, kind: corev1.EventTypeNormal, reason: reason, note: note},
	}
}

// NodePatchForbidden is the message for a node that the operator may not change: what to ask the API server, as on
// the page (spec.md), and what to do.
func NodePatchForbidden(node string, err error) string {
	return fmt.Sprintf("node %s cannot be changed: %s. Check with: kubectl auth can-i patch nodes "+
		"--as=system:serviceaccount:reservation-operator:reservation-operator; give the operator's ClusterRole the verbs "+
		"update and patch on nodes", node, err)
}
