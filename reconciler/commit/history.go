package commit

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

// MaxHistory is how many commits a ReservationSource remembers.
const MaxHistory = 20

// Bounds of what an entry keeps, in characters.
const (
	maxMessage = report.MaxMessage
	maxSubject = 200
	maxAuthor  = 100
)

// Entry is the record of one commit.
type Entry = v1alpha1.HistoryEntry

// Record returns the history, newest first, after something became of the commit at the head of the branch.
//
//   - Another commit than the newest gets an entry of its own, also one that was at the head before (a force-push) or
//     that renders to the same objects: the record says what landed when.
//   - The same commit as the newest (a retry, or another spec) updates its entry in place. Objects add up over the
//     attempts; nodes do not, since each attempt counts those that are still to come.
//   - What was applied stays on record as applied, whatever becomes of later attempts.
//   - An entry that says the same is left as it is, with its time.
//
// It keeps MaxHistory entries, among them the last that was applied. The given history is not changed.
func Record(history []Entry, e Entry) []Entry {
	e = bounded(e)
	if len(history) == 0 || history[0].Revision != e.Revision {
		return trim(append([]Entry{e}, history...))
	}
	was := history[0]
	if was.Outcome == v1alpha1.OutcomeApplied && e.Outcome != v1alpha1.OutcomeApplied {
		return history
	}
	out := slices.Clone(history)
	out[0] = merge(was, e)
	return out
}

func merge(was, e Entry) Entry {
	e.Created += was.Created
	e.Changed += was.Changed
	e.Deleted += was.Deleted
	e.NodesLocked = max(e.NodesLocked, was.NodesLocked)
	e.NodesReleased = max(e.NodesReleased, was.NodesReleased)
	same := e.Outcome == was.Outcome && e.Message == was.Message && e.Created == was.Created && e.Changed == was.Changed && e.Deleted == was.Deleted
	if same && was.AppliedAt != nil {
		e.AppliedAt, e.ConvergedAt = was.AppliedAt, was.ConvergedAt
	}
	return e
}

// Converged returns the history with the time at which the nodes of the commit that was applied last came to rest, if
// it had no such time yet. Newer commits that changed nothing are passed over; after one that was applied in part it
// cannot be told whose rest it is. The given history is not changed.
func Converged(history []Entry, at metav1.Time) []Entry {
	for i, e := range history {
		switch {
		case e.Outcome != v1alpha1.OutcomeApplied && e.Created+e.Changed+e.Deleted == 0:
			continue
		case e.Outcome != v1alpha1.OutcomeApplied, e.ConvergedAt != nil:
			return history
		}
		out := slices.Clone(history)
		out[i].ConvergedAt = &at
		return out
	}
	return history
}

// Reverting says in words what a commit reverts, as far as the history knows it:
//
//	reverts 1f2e3d4c (Give gpu-04 back)
//	reverts 5a6b7c8d (Revert "Give gpu-04 back"), and so brings back 1f2e3d4c
//
// It is empty for a commit that reverts nothing. Hash is the full hash of the reverted commit.
func Reverting(history []Entry, hash string) string {
	if hash == "" {
		return ""
	}
	text := "reverts " + short(hash)
	reverted := find(history, hash)
	if reverted == nil {
		return text
	}
	text += fmt.Sprintf(" (%s)", reverted.Subject)
	if reverted.Reverts != "" {
		text += ", and so brings back " + short(reverted.Reverts)
	}
	return text
}

// find returns the newest entry of a commit; nil if there is none.
func find(history []Entry, hash string) *Entry {
	for i := range history {
		if strings.HasSuffix(history[i].Revision, ":"+hash) {
			return &history[i]
		}
	}
	return nil
}

// trim cuts a history to MaxHistory entries. If none of them was applied, the last one that was takes the place of
// the oldest.
func trim(history []Entry) []Entry {
	applied := func(e Entry) bool { return e.Outcome == v1alpha1.OutcomeApplied }
	if len(history) <= MaxHistory {
		return history
	}
	kept, rest := history[:MaxHistory:MaxHistory], history[MaxHistory:]
	if i := slices.IndexFunc(rest, applied); i >= 0 && !slices.ContainsFunc(kept, applied) {
		kept[MaxHistory-1] = rest[i]
	}
	return kept
}

func bounded(e Entry) Entry {
	e.Message, e.Subject, e.Author = cut(e.Message, maxMessage), cut(e.Subject, maxSubject), cut(e.Author, maxAuthor)
	return e
}

// cut shortens s to at most limit characters, the last of which is then an ellipsis.
func cut(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}

// short returns the beginning of a hash that people recognise.
func short(hash string) string { return hash[:min(len(hash), 8)] }
