package commit

import (
	"fmt"
	"strings"

	"github.com/reservation-operator/reservation-operator/source/render"
)

// Summary says in one line what is wrong with a commit: the first three findings that reject it, each with file,
// kind, name and field, and how many more there are.
func Summary(findings []render.Finding) string {
	const most, length = 3, 300
	var parts []string
	more := 0
	for _, f := range findings {
		switch {
		case f.Warning:
		case len(parts) < most:
			parts = append(parts, cut(strings.Join(strings.Fields(f.String()), " "), length))
		default:
			more++
		}
	}
	text := strings.Join(parts, "; ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// withNotes adds notes to a text: the first two, and how many more there are.
func withNotes(text string, notes []string) string {
	const most, length = 2, 300
	for i, note := range notes {
		if i == most {
			return text + fmt.Sprintf(" and %d more", len(notes)-most)
		}
		text += "; " + cut(note, length)
	}
	return text
}
