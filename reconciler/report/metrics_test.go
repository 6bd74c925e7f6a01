package report

import (
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// served returns what controller-runtime's registry serves of one metric.
func served(t *testing.T, name string) []*dto.Metric {
	t.Helper()
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			require.NotEmpty(t, family.GetHelp())
			return family.GetMetric()
		}
	}
	return nil
}

// gauges maps the values of a gauge's labels, joined, to its values.
func gauges(t *testing.T, name string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, m := range served(t, name) {
		key := ""
		for _, label := range m.GetLabel() { // sorted by name: reservation, state, tenant
			key += label.GetValue() + " "
		}
		out[key] = m.GetGauge().GetValue()
	}
	return out
}

func TestNodesOfAReservation(t *testing.T) {
	ReservationNodes("r1", "foo", 4, 1, 2)
	ReservationNodes("r2", "bar", 8, 0, 0)
	ReservationNodes("r1", "foo", 5, 0, 2)
	require.Equal(t, map[string]float64{
		"r1 held foo ": 5, "r1 releasing foo ": 0, "r1 pending foo ": 2,
		"r2 held bar ": 8, "r2 releasing bar ": 0, "r2 pending bar ": 0,
	}, gauges(t, "reservation_nodes"))

	ReservationNodes("r1", "baz", 1, 0, 0) // deleted and made anew for another tenant
	ForgetReservation("r2")
	ForgetReservation("r9")
	require.Equal(t, map[string]float64{"r1 held baz ": 1, "r1 releasing baz ": 0, "r1 pending baz ": 0}, gauges(t, "reservation_nodes"))
	ForgetReservation("r1")
	require.Empty(t, gauges(t, "reservation_nodes"), "nothing is left of what is gone")
}

func TestFenceIntact(t *testing.T) {
	FenceIntact(true)
	require.Equal(t, map[string]float64{"": 1}, gauges(t, "reservation_fence_intact"))
	FenceIntact(false)
	require.Equal(t, map[string]float64{"": 0}, gauges(t, "reservation_fence_intact"))
}

func TestNodeReleased(t *testing.T) {
	before := served(t, "reservation_node_release_seconds")[0].GetHistogram()
	NodeReleased(90 * time.Second)
	after := served(t, "reservation_node_release_seconds")[0].GetHistogram()
	require.EqualValues(t, 1, after.GetSampleCount()-before.GetSampleCount())
	require.InDelta(t, 90, after.GetSampleSum()-before.GetSampleSum(), 0.001)
}
