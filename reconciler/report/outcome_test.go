package report

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

var errBroken = errors.New("broken")

var outcomes = map[string]Outcome{
	"done":                  Done("9 nodes are locked"),
	"waiting":               Waiting(v1alpha1.ReasonNodesReleasing, "gpu-04 waits", 0),
	"waiting, looked at":    Waiting(v1alpha1.ReasonNodesReleasing, "gpu-04 waits", time.Minute),
	"retry":                 Retry(v1alpha1.ReasonFetchFailed, "no answer", errBroken),
	"retry without a cause": Retry(v1alpha1.ReasonFetchFailed, "no answer", nil),
	"stalled":               Stalled(v1alpha1.ReasonInvalidURL, "spec.url is empty", 0),
	"stalled, looked at":    Stalled(v1alpha1.ReasonInvalidURL, "spec.url is empty", time.Hour),
}

func TestMark(t *testing.T) {
	type want map[string]string // condition: status reason
	cases := map[string]want{
		"done":                  {"Ready": "True Succeeded"},
		"waiting":               {"Ready": "False NodesReleasing", "Reconciling": "True Progressing"},
		"waiting, looked at":    {"Ready": "False NodesReleasing", "Reconciling": "True Progressing"},
		"retry":                 {"Ready": "False FetchFailed", "Reconciling": "True ProgressingWithRetry"},
		"retry without a cause": {"Ready": "False FetchFailed", "Reconciling": "True ProgressingWithRetry"},
		"stalled":               {"Ready": "False InvalidURL", "Stalled": "True InvalidURL"},
		"stalled, looked at":    {"Ready": "False InvalidURL", "Stalled": "True InvalidURL"},
	}
	require.Len(t, cases, len(outcomes))
	for name, c := range cases {
		for from, before := range outcomes {
			t.Run(name+" after "+from, func(t *testing.T) {
				r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
				conditions.MarkTrue(r, v1alpha1.ConditionExclusive, "Exclusive", "")
				before.Mark(r)
				outcomes[name].Mark(r)
				got := want{}
				for _, condition := range r.Status.Conditions {
					require.EqualValues(t, 4, max(condition.ObservedGeneration, 4))
					if condition.Type != v1alpha1.ConditionExclusive {
						got[condition.Type] = string(condition.Status) + " " + condition.Reason
						require.Equal(t, outcomes[name].Message(), condition.Message)
					}
				}
				require.Equal(t, c, got)
				require.False(t, conditions.IsReconciling(r) && conditions.IsStalled(r), "kstatus: never both")
				require.True(t, conditions.IsTrue(r, v1alpha1.ConditionExclusive), "other conditions stay")
			})
		}
	}
}

func TestMarkTwiceKeepsTheTimeOfTransition(t *testing.T) {
	for name, o := range outcomes {
		t.Run(name, func(t *testing.T) {
			r := &v1alpha1.Reservation{}
			o.Mark(r)
			for i := range r.Status.Conditions {
				r.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Unix(1, 0))
			}
			before := r.DeepCopy()
			o.Mark(r)
			require.Equal(t, before.Status.Conditions, r.Status.Conditions)
		})
	}
}

func TestResult(t *testing.T) {
	cases := map[string]struct {
		want         ctrl.Result
		wantTerminal bool
		wantError    string
	}{
		"waiting": {}, "waiting, looked at": {want: ctrl.Result{RequeueAfter: time.Minute}},
		"retry": {wantError: "broken"}, "retry without a cause": {wantError: "FetchFailed: no answer"},
		"stalled": {wantError: "InvalidURL: spec.url is empty", wantTerminal: true}, "stalled, looked at": {want: ctrl.Result{RequeueAfter: time.Hour}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := outcomes[name].Result(10 * time.Minute)
			require.Equal(t, c.want, got)
			if c.wantError == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.wantError)
			require.Equal(t, c.wantTerminal, errors.Is(err, reconcile.TerminalError(nil)))
		})
	}
	t.Run("the cause of a retry stays in the chain", func(t *testing.T) {
		_, err := outcomes["retry"].Result(0)
		require.ErrorIs(t, err, errBroken)
	})
	t.Run("done comes back after the interval, more or less", func(t *testing.T) {
		seen := map[time.Duration]bool{}
		for range 100 {
			got, err := Done("").Result(10 * time.Minute)
			require.NoError(t, err)
			require.InDelta(t, 10*time.Minute, got.RequeueAfter, float64(30*time.Second))
			seen[got.RequeueAfter] = true
		}
		require.Greater(t, len(seen), 1)
	})
	t.Run("done without an interval does not come back", func(t *testing.T) {
		got, err := Done("").Result(0)
		require.NoError(t, err)
		require.Zero(t, got)
	})
}

func TestOnlyDoneIsOK(t *testing.T) {
	for name, o := range outcomes {
		require.Equal(t, name == "done", o.OK(), name)
		require.NotEmpty(t, o.Reason())
	}
}

func TestMessagesAreCut(t *testing.T) {
	cases := map[string]struct {
		in    string
		limit int
		want  string
	}{
		"short":               {"abc", 3, "abc"},
		"long":                {"abcd", 3, "ab…"},
		"empty":               {"", 1, ""},
		"runes and not bytes": {"ääää", 3, "ää…"},
		"as many runes":       {"äää", 3, "äää"},
		"one":                 {"ab", 1, "…"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, cut(c.in, c.limit)) })
	}
	long := Stalled(v1alpha1.ReasonInvalidURL, strings.Repeat("ä", 40000), 0)
	require.Equal(t, MaxMessage, utf8.RuneCountInString(long.Message()))
	_, err := long.Result(0)
	require.Less(t, len(err.Error()), 3*MaxMessage)
}
