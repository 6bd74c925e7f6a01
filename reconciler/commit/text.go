package commit

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/reservation-operator/reservation-operator/reconciler/report"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// maxFinding is the most characters of one finding in a text, maxLogged how many findings of a commit are logged.
const (
	maxFinding = 300
	maxLogged  = 200
)

// Summary says in one line what is wrong with a commit: the findings that reject it, each with file, kind, name and
// field, as many as fit into a condition's message, and how many more there are.
func Summary(findings []render.Finding) string {
	parts := rejecting(findings)
	var b strings.Builder
	used := 0
	for i, part := range parts {
		if i > 0 {
			part = "; " + part
		}
		rest := ""
		if left := len(parts) - i - 1; left > 0 {
			rest = more(left)
		}
		if length := utf8.RuneCountInString(part); used+length+len(rest) <= report.MaxMessage {
			b.WriteString(part)
			used += length
			continue
		}
		b.WriteString(more(len(parts) - i))
		break
	}
	return b.String()
}

// rejecting returns the findings that reject a commit, as lines.
func rejecting(findings []render.Finding) []string {
	var out []string
	for _, f := range findings {
		if !f.Warning {
			out = append(out, cut(strings.Join(strings.Fields(f.String()), " "), maxFinding))
		}
	}
	return out
}

// logged returns what is logged of a commit's findings: the first, and how many there are in all.
func logged(findings []render.Finding) (first []string, all int) {
	parts := rejecting(findings)
	return parts[:min(len(parts), maxLogged)], len(parts)
}

func more(n int) string { return fmt.Sprintf(" and %d more", n) }

// withNotes adds notes to a text: the first two, and how many more there are.
func withNotes(text string, notes []string) string {
	const most = 2
	for i, note := range notes {
		if i == most {
			return text + more(len(notes)-most)
		}
		text += "; " + cut(note, maxFinding)
	}
	return text
}
