package house

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestReasonsAreOneList(t *testing.T) {
	problems, err := Reasons(os.DirFS(Root()))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestReasonsFindsWhatIsNotAlike(t *testing.T) {
	for name, tc := range map[string]struct {
		list, page, code, fetch string
		want                    []string
	}{
		"all is well": {
			list: `ReasonA = "A"; ReasonB = "B"`, page: "| `A` | a |\n| `B` | b |", code: "v1alpha1.ReasonA",
			fetch: `B Reason = "B"`},
		"never used": {
			list: `ReasonA = "A"`, page: "| `A` | a |", code: "v1alpha1.Other",
			want: []string{"ReasonA is listed and never used"}},
		"not explained": {
			list: `ReasonA = "A"`, page: "", code: "v1alpha1.ReasonA",
			want: []string{"A stands in 0 rows of docs/reference/reasons.md, not in one"}},
		"explained twice": {
			list: `ReasonA = "A"`, page: "| `A` | a |\n| `A` | b |", code: "v1alpha1.ReasonA",
			want: []string{"A stands in 2 rows of docs/reference/reasons.md, not in one"}},
		"explained and gone": {
			list: `ReasonA = "A"`, page: "| `A` | a |\n| `B` | b |", code: "v1alpha1.ReasonA",
			want: []string{"B is explained in docs/reference/reasons.md and not listed in api/v1alpha1/reasons.go"}},
		"another value than its name": {
			list: `ReasonA = "Z"`, page: "| `Z` | a |", code: "v1alpha1.ReasonA",
			want: []string{`ReasonA has the value "Z"; the two must be alike`}},
		"fetch has one of its own": {
			list: `ReasonA = "A"`, page: "| `A` | a |", code: "v1alpha1.ReasonA", fetch: `C Reason = "C"`,
			want: []string{"C of source/fetch/errors.go is not listed in api/v1alpha1/reasons.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			problems, err := Reasons(fstest.MapFS{
				"api/v1alpha1/reasons.go":   {Data: []byte("package v1alpha1\nconst (" + tc.list + ")")},
				"docs/reference/reasons.md": {Data: []byte(tc.page)},
				"reconciler/a/a.go":         {Data: []byte("package a\nvar _ = " + tc.code)},
				"reconciler/a/a_test.go":    {Data: []byte("package a\nvar _ = v1alpha1.ReasonB")},
				"source/fetch/errors.go":    {Data: []byte("package fetch\nconst (" + tc.fetch + ")")},
			})
			require.NoError(t, err)
			require.Equal(t, tc.want, problems)
		})
	}
}
