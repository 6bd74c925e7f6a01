package report

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The operator's own metrics, served with controller-runtime's. docs/reference/metrics.md lists them.
var (
	nodes = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "reservation_nodes",
		Help: "Nodes of a Reservation by state: held (locked), releasing, and pending (claimed and not locked yet).",
	}, []string{"reservation", "tenant", "state"})
	fenceIntact = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "reservation_fence_intact",
		Help: "1 if the API server was last seen to refuse foreign pods on reserved nodes, else 0.",
	})
	releaseSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "reservation_node_release_seconds",
		Help:    "How long releases took that had to wait for the tenant's pods, from the cordon to the last patch.",
		Buckets: []float64{1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600},
	})
)

func init() { metrics.Registry.MustRegister(nodes, fenceIntact, releaseSeconds) }

// tenants holds, per Reservation with series, the tenant that they bear: one that is made anew may have another.
var tenants sync.Map

// ReservationNodes sets how many nodes a Reservation has in each state: three series for each Reservation, which
// last until ForgetReservation.
func ReservationNodes(reservation, tenant string, held, releasing, pending int) {
	if before, had := tenants.Swap(reservation, tenant); had && before != tenant {
		nodes.DeletePartialMatch(prometheus.Labels{"reservation": reservation})
	}
	for state, count := range map[string]int{"held": held, "releasing": releasing, "pending": pending} {
		nodes.WithLabelValues(reservation, tenant, state).Set(float64(count))
	}
}

// ForgetReservation removes the series of a Reservation that is gone.
func ForgetReservation(reservation string) {
	tenants.Delete(reservation)
	nodes.DeletePartialMatch(prometheus.Labels{"reservation": reservation})
}

// FenceIntact notes what the fence's last proof said.
func FenceIntact(intact bool) {
	if intact {
		fenceIntact.Set(1)
	} else {
		fenceIntact.Set(0)
	}
}

// NodeReleased notes how long the release of a node took.
func NodeReleased(took time.Duration) { releaseSeconds.Observe(took.Seconds()) }
