package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reservation-operator/reservation-operator/source/check"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// TestTheExampleRepositoryIsInOrder reads tenants-example as the operator would.
func TestTheExampleRepositoryIsInOrder(t *testing.T) {
	tree := os.DirFS(filepath.Join(Root(), "tenants-example"))
	objects, findings, err := render.Render(t.Context(), tree, "tenants", render.DefaultLimits())
	require.NoError(t, err)
	nodes := map[string]map[string]string{}
	for _, name := range strings.Fields("gpu-01 gpu-02 gpu-03 gpu-04 gpu-05 gpu-06 gpu-07 gpu-08 gpu-09 gpu-10 gpu-11 gpu-12 gpu-13 gpu-14") {
		nodes[name] = nil
	}
	findings = append(findings, check.Check(check.Set{
		Source: "tenants", Path: "tenants", Objects: objects,
		Live: check.Live{Nodes: nodes, Namespaces: map[string]string{"default": ""}, Owners: map[check.Key]string{}},
	})...)
	require.Empty(t, findings)

	var got []string
	for _, o := range objects {
		got = append(got, o.GetKind()+" "+o.GetName())
	}
	require.ElementsMatch(t, []string{
		"Namespace tenant-foo", "Reservation tenant-foo-reservation", "ReservationBinding tenant-foo-binding",
		"ResourceQuota tenant-foo-quota", "LimitRange tenant-foo-defaults",
		"Namespace tenant-bar", "Reservation tenant-bar-reservation", "ReservationBinding tenant-bar-binding",
		"ResourceQuota tenant-bar-quota",
	}, got)

	reserved := map[string]int{}
	for _, r := range check.Reservations(objects) {
		reserved[r.Spec.Tenant] = len(r.Spec.ReservedNodes)
	}
	require.Equal(t, map[string]int{"tenant-foo": 4, "tenant-bar": 8}, reserved, "the page's RESERVED column")
}

// TestTheExampleHoldsThePagesObjects: what the example says of tenant-foo is the page's own text, as in config/samples.
func TestTheExampleHoldsThePagesObjects(t *testing.T) {
	for _, file := range []string{"reservation.yaml", "reservationbinding.yaml", "resourcequota.yaml"} {
		sample, err := os.ReadFile(filepath.Join(Root(), "config", "samples", file))
		require.NoError(t, err)
		example, err := os.ReadFile(filepath.Join(Root(), "tenants-example", "tenants", "tenant-foo", file))
		require.NoError(t, err)
		require.Equal(t, string(sample), string(example), file)
	}
}
