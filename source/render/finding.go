package render

import (
	"strconv"
	"strings"
)

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
