package commit

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/reservation-operator/reservation-operator/reconciler/report"
	"github.com/reservation-operator/reservation-operator/source/render"
)

func TestSummary(t *testing.T) {
	of := func(n int, message string) []render.Finding {
		var out []render.Finding
		for i := range n {
			out = append(out, render.Finding{File: fmt.Sprintf("%d.yaml", i), Message: message})
		}
		return out
	}
	for name, tc := range map[string]struct {
		findings []render.Finding
		want     string
	}{
		"nothing":              {},
		"warnings":             {findings: []render.Finding{{Warning: true, File: "a.yaml", Message: "odd"}}},
		"all that fit":         {findings: of(4, "is bad"), want: "0.yaml: is bad; 1.yaml: is bad; 2.yaml: is bad; 3.yaml: is bad"},
		"several lines in one": {findings: of(1, "is\n  bad"), want: "0.yaml: is bad"},
		"a long one":           {findings: of(1, strings.Repeat("é", 500)), want: "0.yaml: " + strings.Repeat("é", 291) + "…"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, Summary(tc.findings)) })
	}
	for n := range 300 {
		findings := of(n, strings.Repeat("é", n))
		text := Summary(findings)
		require.LessOrEqual(t, utf8.RuneCountInString(text), report.MaxMessage, n)
		var left int
		said := strings.Count(text, ".yaml: ")
		if said < n {
			_, err := fmt.Sscanf(text[strings.LastIndex(text, " and "):], " and %d more", &left)
			require.NoError(t, err)
		}
		require.Equal(t, n, said+left, "each is named or counted")
	}
}

func TestFindingsAreLogged(t *testing.T) {
	findings := []render.Finding{{Warning: true, Message: "odd"}}
	for range maxLogged + 7 {
		findings = append(findings, render.Finding{File: "a.yaml", Message: "is bad"})
	}
	first, all := logged(findings)
	require.Len(t, first, maxLogged)
	require.Equal(t, "a.yaml: is bad", first[0])
	require.Equal(t, maxLogged+7, all)
}
