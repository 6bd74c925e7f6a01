package commit

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/apply"
)

// maxNote is the most characters of an event's text; the API server takes 1,024 bytes.
const maxNote = 300

// event is something worth an event on a ReservationSource.
type event struct {
	source             *v1alpha1.ReservationSource
	kind, reason, note string
}

// emit sends it. It does not block and reports no error: an event that is lost changes nothing.
func (e event) emit(recorder events.EventRecorder) {
	if recorder != nil {
		recorder.Eventf(e.source, nil, e.kind, e.reason, e.reason, "%s", cut(e.note, maxNote))
	}
}

// committed is the event for what became of a commit.
func committed(source *v1alpha1.ReservationSource, e Entry) event {
	switch e.Outcome {
	case v1alpha1.OutcomeApplied:
		return event{source, corev1.EventTypeNormal, v1alpha1.ReasonCommitApplied, fmt.Sprintf("applied %s (%s)", e.Revision, e.Subject)}
	case v1alpha1.OutcomeRejected:
		return event{source, corev1.EventTypeWarning, v1alpha1.ReasonCommitRejected, fmt.Sprintf("rejected %s: %s", e.Revision, e.Message)}
	default:
		return event{source, corev1.EventTypeWarning, v1alpha1.ReasonApplyFailed, fmt.Sprintf("could not apply %s: %s", e.Revision, e.Message)}
	}
}

// suspension is the event for a source that is suspended.
func suspension(source *v1alpha1.ReservationSource) event {
	note := "suspended: nothing is fetched, applied or pruned until spec.suspend is taken back"
	if revision := source.Status.LastAppliedRevision; revision != "" {
		note += "; " + revision + " stays applied"
	}
	return event{source, corev1.EventTypeNormal, v1alpha1.ReasonSuspended, note}
}

// driftCorrected is the event for an object that somebody had changed or deleted and that is as the commit says again.
func driftCorrected(source *v1alpha1.ReservationSource, e apply.Entry) event {
	return event{source, corev1.EventTypeNormal, v1alpha1.ReasonCommitApplied,
		fmt.Sprintf("%s was changed by somebody else and is as %s says again", apply.Name(e), source.Status.LastAppliedRevision)}
}
