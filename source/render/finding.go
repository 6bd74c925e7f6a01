package render

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Finding is one thing wrong, or worth a warning, in a commit.
type Finding struct {
	// Warning findings do not reject the commit.
	Warning bool
	// File is the slash path from the repository's root.
	File string
	// Line counts from 1; 0 if not known.
	Line int
	// Kind, Namespace and Name are the object's, as far as they are known.
	Kind, Namespace, Name string
	// Field is the path of the field ("spec.tenant"), or "".
	Field string
	// Message says what is wrong and what to do. One line, bounded, and never a
	// word of what a symbolic link points to.
	Message string
}

// Rejected says whether any of the findings is not a warning.
func Rejected(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return !f.Warning })
}

// String is one line: "tenants/foo/reservation.yaml:12: Reservation
// tenant-foo-reservation: spec.tenant: …". Parts that are not known are left
// out.
func (f Finding) String() string {
	var parts []string
	if f.File != "" {
		at := f.File
		if f.Line > 0 {
			at += ":" + strconv.Itoa(f.Line)
		}
		parts = append(parts, at)
	}
	if f.Kind != "" || f.Name != "" {
		name := f.Name
		if f.Namespace != "" {
			name = f.Namespace + "/" + name
		}
		parts = append(parts, strings.TrimSpace(f.Kind+" "+name))
	}
	if f.Field != "" {
		parts = append(parts, f.Field)
	}
	return strings.Join(append(parts, f.Message), ": ")
}

// inOrder sorts findings by file, line and the rest, and drops repetitions: a
// base that two overlays use is read once but may be reported twice.
func inOrder(findings []Finding) []Finding {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(findings)
}

const maxMessage = 1024

// tidy makes one bounded line of a message that is not ours.
func tidy(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}
