package report

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// maxBindings bounds how many bindings of a Reservation are told of a node.
const maxBindings = 10

// nodeNotes are what is said of a node for each reason. They name what does not change from one time to the next.
var nodeNotes = map[string]struct{ kind, note string }{
	v1alpha1.ReasonReleaseStarted:  {corev1.EventTypeNormal, "Node %s is being released: it is cordoned and stays reserved until the tenant's pods have ended"},
	v1alpha1.ReasonReleaseAborted:  {corev1.EventTypeNormal, "Node %s was claimed again before its release was over and stays reserved"},
	v1alpha1.ReasonNodeReleased:    {corev1.EventTypeNormal, "Node %s was released: its label and taint are off"},
	v1alpha1.ReasonReleaseBlocked:  {corev1.EventTypeWarning, "Node %s is being released, but a pod does not go; status.releasing of its Reservation says which and why"},
	v1alpha1.ReasonBudgetConflict:  {corev1.EventTypeWarning, "Node %s is being released, but a pod has two disruption budgets, with which the API server evicts nothing; remove one"},
	v1alpha1.ReasonNodeUnreachable: {corev1.EventTypeWarning, "Node %s is being released, but does not answer: it stays reserved until its kubelet is back, the Node is deleted, or it bears the taint node.kubernetes.io/out-of-service"},
	v1alpha1.ReasonLockRemoved:     {corev1.EventTypeWarning, "Node %s lost its label or taint%s; the operator put it back"},
}

// BlocksRelease reports whether a reason is why a release does not go on.
func BlocksRelease(reason string) bool {
	return reason == v1alpha1.ReasonReleaseBlocked || reason == v1alpha1.ReasonBudgetConflict || reason == v1alpha1.ReasonNodeUnreachable
}

// NodeEvents returns the events that something at a node is worth: one on the node and, if its Reservation still
// exists (nil if not), one there and one on each binding to it, ten at most, so that the tenant's namespaces hear of
// it. Reason is ReleaseStarted, ReleaseAborted, NodeReleased, LockRemoved, or one that blocks a release. Suspect is
// who seems to have removed a lock; the other reasons do not say it.
func NodeEvents(reason string, node *corev1.Node, suspect string, reservation *v1alpha1.Reservation, bindings []v1alpha1.ReservationBinding) []Event {
	args := []any{node.Name}
	if reason == v1alpha1.ReasonLockRemoved {
		args = append(args, suspect)
	}
	of := func(regarding, related runtime.Object) Event {
		return Event{
			regarding: regarding, related: related, kind: nodeNotes[reason].kind, reason: reason, note: fmt.Sprintf(nodeNotes[reason].note, args...),
		}
	}
	if reservation == nil {
		return []Event{of(node, nil)}
	}
	all := []Event{of(node, reservation), of(reservation, node)}
	for i := range bindings {
		if bindings[i].Spec.ReservationName == reservation.Name && len(all) < 2+maxBindings && reason != v1alpha1.ReasonLockRemoved {
			all = append(all, of(&bindings[i], node))
		}
	}
	return all
}

// FenceAdvice says what to do about a fence that is not proven, for the reason that the probe gave. It names no number
// that changes from one probe to the next.
func FenceAdvice(err error) string {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return fmt.Sprintf("the question itself was refused (%s); give the operator its roles and the namespace %s back with: "+
			"kubectl apply -k config/rbac", cause(err), v1alpha1.ProbeNamespace)
	default:
		return "look at: kubectl get validatingadmissionpolicies; if they are in order and it stays so, the API server " +
			"serves an old index since the policies were once deleted: restart kube-apiserver"
	}
}

// cause is what the API server itself answered.
func cause(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// NodePatchForbidden is the message for a node that the operator may not change: what to ask the API server, as on
// the page (spec.md), and what to do.
func NodePatchForbidden(node string, err error) string {
	return fmt.Sprintf("node %s cannot be changed: %s. Check with: kubectl auth can-i patch nodes "+
		"--as=system:serviceaccount:reservation-operator:reservation-operator; give the operator's ClusterRole the verbs "+
		"update and patch on nodes", node, err)
}
