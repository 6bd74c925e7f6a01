package house

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArrowsNeverTurnBack(t *testing.T) {
	packages, err := Packages()
	require.NoError(t, err)
	require.Greater(t, len(packages), 10)
	require.Empty(t, Arrows(packages))
}

func TestArrowsFindsImports(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to string
		wrong    bool
	}{
		"api imports a room":                        {"api/v1alpha1", "source/check", true},
		"source imports api":                        {"source/check", "api/v1alpha1", false},
		"source imports source":                     {"source", "source/fetch", false},
		"source imports reconciler":                 {"source/check", "reconciler/allocate", true},
		"source imports webhook":                    {"source/check", "webhook/inject", true},
		"a reconciler reads rendered objects":       {"reconciler/apply", "source/render", false},
		"a reconciler fetches":                      {"reconciler/apply", "source/fetch", true},
		"commit fetches":                            {"reconciler/commit", "source/fetch", false},
		"commit uses the chain":                     {"reconciler/commit", "source", false},
		"a reconciler imports a webhook":            {"reconciler/binding", "webhook/serve", true},
		"a webhook asks which bindings count":       {"webhook/validate", "reconciler/binding", false},
		"a webhook imports the node reconciler":     {"webhook/fence", "reconciler/node", true},
		"a webhook fetches":                         {"webhook/validate", "source/fetch", true},
		"cmd wires":                                 {"cmd/reservation-operator", "reconciler/node", false},
		"somebody imports cmd":                      {"reconciler/node", "cmd/reservation-operator", true},
		"a test imports cmd":                        {"test/e2e", "cmd/reservation-operator", true},
		"the product imports test":                  {"cmd/reservation-operator", "test/controlplane", true},
		"a room that is not in the house":           {"helpers", "api/v1alpha1", true},
		"a room whose name begins like another one": {"sourcery", "source/check", true},
		"the root imports a room":                   {"", "api/v1alpha1", true},
	} {
		t.Run(name, func(t *testing.T) {
			from := Module
			if tc.from != "" {
				from += "/" + tc.from
			}
			problems := Arrows([]Package{{ImportPath: from, Imports: []string{"fmt", "k8s.io/api/core/v1", Module + "/" + tc.to}}})
			require.Equal(t, tc.wrong, len(problems) == 1, problems)
		})
	}
}
