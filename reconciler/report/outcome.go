package report

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// MaxMessage is the most characters that a condition's message keeps; the rest is cut with an ellipsis. The API
// server's own limit is 32,768.
const MaxMessage = 2048

type kind int

const (
	done kind = iota
	waiting
	retrying
	stalled
)

// Outcome is how a reconcile ended. It is the only way in which a reconcile becomes conditions and a result, so the
// two never disagree. Make one with Done, Waiting, Retry or Stalled.
type Outcome struct {
	kind    kind
	reason  string
	message string
	after   time.Duration
	err     error
}

// Done: what the spec asks for is so.
func Done(message string) Outcome {
	return Outcome{kind: done, reason: v1alpha1.ReasonSucceeded, message: message}
}

// Waiting: a known cause, which will pass, stands in the way. It is looked at again after the given time; zero
// means that a watch brings it back.
func Waiting(reason, message string, after time.Duration) Outcome {
	return Outcome{kind: waiting, reason: reason, message: message, after: after}
}

// Retry: something failed that may work the next time; it is tried again with back-off.
func Retry(reason, message string, err error) Outcome {
	if err == nil {
		err = fmt.Errorf("%s: %s", reason, message)
	}
	return Outcome{kind: retrying, reason: reason, message: message, err: err}
}

// Stalled: nothing helps until a person changes something. It is looked at again after the given time; zero means
// that only a watch brings it back.
func Stalled(reason, message string, after time.Duration) Outcome {
	return Outcome{kind: stalled, reason: reason, message: message, after: after}
}

// Reason returns the outcome's reason, one of those in api/v1alpha1/reasons.go.
func (o Outcome) Reason() string { return o.reason }

// Message returns what happened, at most MaxMessage characters.
func (o Outcome) Message() string { return cut(o.message, MaxMessage) }

// OK reports whether the outcome is Done.
func (o Outcome) OK() bool { return o.kind == done }

// Mark sets the object's Ready, Reconciling and Stalled conditions as kstatus reads them. Conditions that are
// already so keep their time of transition.
func (o Outcome) Mark(obj conditions.Setter) {
	message := o.Message()
	switch o.kind {
	case done:
		conditions.Delete(obj, v1alpha1.ConditionReconciling)
		conditions.Delete(obj, v1alpha1.ConditionStalled)
		mark(obj, v1alpha1.ConditionReady, metav1.ConditionTrue, o.reason, message)
	case waiting:
		conditions.Delete(obj, v1alpha1.ConditionStalled)
		mark(obj, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonProgressing, message)
		mark(obj, v1alpha1.ConditionReady, metav1.ConditionFalse, o.reason, message)
	case retrying:
		conditions.Delete(obj, v1alpha1.ConditionStalled)
		mark(obj, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonProgressingWithRetry, message)
		mark(obj, v1alpha1.ConditionReady, metav1.ConditionFalse, o.reason, message)
	case stalled:
		conditions.Delete(obj, v1alpha1.ConditionReconciling)
		mark(obj, v1alpha1.ConditionStalled, metav1.ConditionTrue, o.reason, message)
		mark(obj, v1alpha1.ConditionReady, metav1.ConditionFalse, o.reason, message)
	}
}

// Result returns what a Reconcile function returns: interval (0 for none) with a jitter of at most 5 % when done,
// the outcome's own time when waiting or stalled, and the error for back-off when it is to be tried again. A
// stalled outcome without a time of its own is a terminal error, which is logged and not retried.
func (o Outcome) Result(interval time.Duration) (ctrl.Result, error) {
	switch o.kind {
	case done:
		return ctrl.Result{RequeueAfter: jittered(interval)}, nil
	case retrying:
		return ctrl.Result{}, o.err
	case stalled:
		if o.after == 0 {
			return ctrl.Result{}, reconcile.TerminalError(fmt.Errorf("%s: %s", o.reason, o.Message()))
		}
	}
	return ctrl.Result{RequeueAfter: o.after}, nil
}

func mark(obj conditions.Setter, condition string, status metav1.ConditionStatus, reason, message string) {
	conditions.Set(obj, &metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: message, ObservedGeneration: obj.GetGeneration(),
	})
}

// jittered moves an interval by at most 5 % either way, so that objects that were made together do not stay together.
func jittered(interval time.Duration) time.Duration {
	if interval <= 0 {
		return 0
	}
	return interval - interval/20 + rand.N(interval/10+1)
}

// cut shortens s to at most limit runes, the last of which is then an ellipsis.
func cut(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}
