package commit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func at(minute int) *metav1.Time {
	t := metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))
	return &t
}

func TestRecord(t *testing.T) {
	const applied, rejected, failed = v1alpha1.OutcomeApplied, v1alpha1.OutcomeRejected, v1alpha1.OutcomeFailed
	for name, tc := range map[string]struct {
		history []Entry
		entry   Entry
		want    []Entry
	}{
		"the first commit": {
			entry: Entry{Revision: "c1", Outcome: applied},
			want:  []Entry{{Revision: "c1", Outcome: applied}}},
		"the next commit comes first": {
			history: []Entry{{Revision: "c1", Outcome: applied}}, entry: Entry{Revision: "c2", Outcome: rejected},
			want: []Entry{{Revision: "c2", Outcome: rejected}, {Revision: "c1", Outcome: applied}}},
		"a commit that comes back gets an entry of its own": {
			history: []Entry{{Revision: "c2", Outcome: applied}, {Revision: "c1", Outcome: applied, AppliedAt: at(1)}},
			entry:   Entry{Revision: "c1", Outcome: applied, AppliedAt: at(3)},
			want: []Entry{{Revision: "c1", Outcome: applied, AppliedAt: at(3)}, {Revision: "c2", Outcome: applied},
				{Revision: "c1", Outcome: applied, AppliedAt: at(1)}}},
		"the same rejection says nothing new": {
			history: []Entry{{Revision: "c1", Outcome: rejected, Message: "bad", AppliedAt: at(1)}},
			entry:   Entry{Revision: "c1", Outcome: rejected, Message: "bad", AppliedAt: at(2)},
			want:    []Entry{{Revision: "c1", Outcome: rejected, Message: "bad", AppliedAt: at(1)}}},
		"a rejection for another cause": {
			history: []Entry{{Revision: "c1", Outcome: rejected, Message: "bad", AppliedAt: at(1)}},
			entry:   Entry{Revision: "c1", Outcome: rejected, Message: "worse", AppliedAt: at(2)},
			want:    []Entry{{Revision: "c1", Outcome: rejected, Message: "worse", AppliedAt: at(2)}}},
		"a rejection that was cured in the cluster": {
			history: []Entry{{Revision: "c1", Outcome: rejected, Message: "bad", AppliedAt: at(1)}},
			entry:   Entry{Revision: "c1", Outcome: applied, Created: 2, AppliedAt: at(2)},
			want:    []Entry{{Revision: "c1", Outcome: applied, Created: 2, AppliedAt: at(2)}}},
		"a retry that completes what was begun": {
			history: []Entry{{Revision: "c1", Outcome: failed, Created: 3, Changed: 1, NodesLocked: 5, NodesReleased: 1}},
			entry:   Entry{Revision: "c1", Outcome: applied, Created: 2, NodesLocked: 2, AppliedAt: at(2)},
			want:    []Entry{{Revision: "c1", Outcome: applied, Created: 5, Changed: 1, NodesLocked: 5, NodesReleased: 1, AppliedAt: at(2)}}},
		"what was applied stays applied": {
			history: []Entry{{Revision: "c1", Outcome: applied, Created: 3, AppliedAt: at(1), ConvergedAt: at(2)}},
			entry:   Entry{Revision: "c1", Outcome: failed, Message: "no"},
			want:    []Entry{{Revision: "c1", Outcome: applied, Created: 3, AppliedAt: at(1), ConvergedAt: at(2)}}},
		"the same commit with another spec": {
			history: []Entry{{Revision: "c1", Outcome: applied, Created: 3, AppliedAt: at(1), ConvergedAt: at(2)}},
			entry:   Entry{Revision: "c1", Outcome: applied, Deleted: 3, AppliedAt: at(4)},
			want:    []Entry{{Revision: "c1", Outcome: applied, Created: 3, Deleted: 3, AppliedAt: at(4)}}},
		"long texts": {
			entry: Entry{Revision: "c1", Subject: strings.Repeat("é", 300), Author: strings.Repeat("é", 300), Message: strings.Repeat("é", 3000)},
			want: []Entry{{Revision: "c1", Subject: strings.Repeat("é", 199) + "…", Author: strings.Repeat("é", 99) + "…",
				Message: strings.Repeat("é", 2047) + "…"}}},
	} {
		t.Run(name, func(t *testing.T) {
			before := append([]Entry(nil), tc.history...)
			got := Record(tc.history, tc.entry)
			require.Empty(t, cmp.Diff(tc.want, got))
			require.Equal(t, before, tc.history, "the given history stays")
		})
	}
}

func TestRecordIsBounded(t *testing.T) {
	history := Record(nil, Entry{Revision: "good", Outcome: v1alpha1.OutcomeApplied})
	for i := range 50 {
		history = Record(history, Entry{Revision: fmt.Sprint(i), Outcome: v1alpha1.OutcomeRejected})
		require.LessOrEqual(t, len(history), MaxHistory)
		require.Equal(t, "good", history[len(history)-1].Revision, "the last one that was applied is never forgotten")
	}
	require.Equal(t, "49", history[0].Revision)
	history = Record(history, Entry{Revision: "better", Outcome: v1alpha1.OutcomeApplied})
	require.Len(t, history, MaxHistory)
	require.Equal(t, "better", history[0].Revision)
}

func TestConverged(t *testing.T) {
	for name, tc := range map[string]struct{ history, want []Entry }{
		"nothing yet":      {},
		"applied":          {[]Entry{{Revision: "c1", Outcome: v1alpha1.OutcomeApplied}}, []Entry{{Revision: "c1", Outcome: v1alpha1.OutcomeApplied, ConvergedAt: at(5)}}},
		"converged before": {[]Entry{{Outcome: v1alpha1.OutcomeApplied, ConvergedAt: at(1)}}, []Entry{{Outcome: v1alpha1.OutcomeApplied, ConvergedAt: at(1)}}},
		"rejected":         {[]Entry{{Outcome: v1alpha1.OutcomeRejected}}, []Entry{{Outcome: v1alpha1.OutcomeRejected}}},
		"then a rejected one": {
			[]Entry{{Outcome: v1alpha1.OutcomeRejected}, {Outcome: v1alpha1.OutcomeApplied}, {Outcome: v1alpha1.OutcomeApplied}},
			[]Entry{{Outcome: v1alpha1.OutcomeRejected}, {Outcome: v1alpha1.OutcomeApplied, ConvergedAt: at(5)}, {Outcome: v1alpha1.OutcomeApplied}}},
		"then one that was applied in part": {
			[]Entry{{Outcome: v1alpha1.OutcomeFailed, Changed: 1}, {Outcome: v1alpha1.OutcomeApplied}},
			[]Entry{{Outcome: v1alpha1.OutcomeFailed, Changed: 1}, {Outcome: v1alpha1.OutcomeApplied}}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, Converged(tc.history, *at(5))) })
	}
}

func TestReverting(t *testing.T) {
	one, two, three := strings.Repeat("1", 40), strings.Repeat("2", 40), strings.Repeat("3", 40)
	history := []Entry{
		{Revision: "main@sha1:" + two, Subject: `Revert "Give gpu-04 back"`, Reverts: one},
		{Revision: "main@sha1:" + one, Subject: "Give gpu-04 back"},
	}
	require.Empty(t, Reverting(history, ""))
	require.Equal(t, "reverts 11111111 (Give gpu-04 back)", Reverting(history, one))
	require.Equal(t, `reverts 22222222 (Revert "Give gpu-04 back"), and so brings back 11111111`, Reverting(history, two))
	require.Equal(t, "reverts 33333333", Reverting(history, three))
}
