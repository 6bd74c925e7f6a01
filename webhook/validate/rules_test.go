package validate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func reservation(tenant string, nodes ...string) *v1alpha1.Reservation {
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: tenant + "-reservation"}}
	r.Spec.Tenant = tenant
	r.Spec.ReservedNodes = nodes
	return r
}

// since sets how many hours ago it was made.
func since(hours int, r *v1alpha1.Reservation) *v1alpha1.Reservation {
	r.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(hours) * time.Hour))
	return r
}

func going[T metav1.Object](o T) T {
	o.SetDeletionTimestamp(ptr.To(metav1.Now()))
	o.SetFinalizers([]string{v1alpha1.FinalizerRelease})
	return o
}

func selecting(r *v1alpha1.Reservation, operator metav1.LabelSelectorOperator) *v1alpha1.Reservation {
	r.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: operator}}}
	return r
}

func messages(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

func TestReservation(t *testing.T) {
	const taken = `spec.reservedNodes[%d]: Invalid value: "gpu-04": gpu-04 is already in Reservation tenant-bar-reservation (tenant tenant-bar); remove it there first`
	bar := reservation("tenant-bar", "gpu-04", "gpu-05")
	for name, tc := range map[string]struct {
		candidate, old *v1alpha1.Reservation
		others         []*v1alpha1.Reservation
		want           []string
	}{
		"alone":            {candidate: reservation("tenant-foo", "gpu-04")},
		"nodes of its own": {candidate: reservation("tenant-foo", "gpu-01"), others: []*v1alpha1.Reservation{bar}},
		"another one's node": {
			candidate: reservation("tenant-foo", "gpu-01", "gpu-04"), others: []*v1alpha1.Reservation{bar}, want: []string{fmt.Sprintf(taken, 1)}},
		"itself among the others": {
			candidate: reservation("tenant-foo", "gpu-01", "gpu-02"), old: reservation("tenant-foo", "gpu-01"),
			others: []*v1alpha1.Reservation{reservation("tenant-foo", "gpu-01", "gpu-02")}},
		"another one's node, taken by an older Reservation": {
			candidate: since(9, reservation("tenant-foo", "gpu-04")), old: since(9, reservation("tenant-foo")),
			others: []*v1alpha1.Reservation{since(1, bar)}, want: []string{fmt.Sprintf(taken, 0)}},
		"a node that two others have already": {
			candidate: reservation("tenant-foo", "gpu-04"),
			others:    []*v1alpha1.Reservation{since(1, reservation("tenant-old", "gpu-04")), since(2, bar)}, want: []string{fmt.Sprintf(taken, 0)}},
		"a node named twice is said once": {
			candidate: reservation("tenant-foo", "gpu-04", "gpu-04"), others: []*v1alpha1.Reservation{bar}, want: []string{fmt.Sprintf(taken, 0)}},
		"of one that is being deleted": {
			candidate: reservation("tenant-foo", "gpu-04"), others: []*v1alpha1.Reservation{going(reservation("tenant-bar", "gpu-04"))}},
		"the same tenant's other Reservation": {
			candidate: reservation("tenant-foo", "gpu-04"),
			others:    []*v1alpha1.Reservation{{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: reservation("tenant-foo", "gpu-04").Spec}},
			want:      []string{`spec.reservedNodes[0]: Invalid value: "gpu-04": gpu-04 is already in Reservation more (tenant tenant-foo); remove it there first`}},
		"an overlap that was there does not hold up what shrinks it": {
			candidate: reservation("tenant-foo", "gpu-05"), old: reservation("tenant-foo", "gpu-04", "gpu-05"), others: []*v1alpha1.Reservation{bar}},
		"only what is added is looked at": {
			candidate: reservation("tenant-foo", "gpu-05", "gpu-04"), old: reservation("tenant-foo", "gpu-05"),
			others: []*v1alpha1.Reservation{bar}, want: []string{fmt.Sprintf(taken, 1)}},
		"one that is being deleted itself": {
			candidate: going(reservation("tenant-foo", "gpu-04")), old: going(reservation("tenant-foo")), others: []*v1alpha1.Reservation{bar}},
		"a selector": {candidate: selecting(reservation("tenant-foo"), metav1.LabelSelectorOpExists)},
		"a selector that does not parse, and an overlap": {
			candidate: selecting(reservation("tenant-foo", "gpu-04"), "Is"), others: []*v1alpha1.Reservation{bar},
			want: []string{`spec.nodeSelector: Invalid value: "Is" is not a valid label selector operator`, fmt.Sprintf(taken, 0)}},
		"a selector that did not parse before either": {
			candidate: selecting(reservation("tenant-foo", "gpu-01"), "Is"), old: selecting(reservation("tenant-foo"), "Is")},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				var others []v1alpha1.Reservation
				for _, i := range rand.Perm(len(tc.others)) {
					others = append(others, *tc.others[i])
				}
				require.Equal(t, tc.want, messages(Reservation(tc.candidate, tc.old, others)))
			}
		})
	}
}

func TestReservation_bounds_what_it_says(t *testing.T) {
	var nodes []string
	for i := range 5000 {
		nodes = append(nodes, fmt.Sprintf("gpu-%04d", i))
	}
	errs := Reservation(reservation("tenant-foo", nodes...), nil, []v1alpha1.Reservation{*reservation("tenant-bar", nodes...)})
	require.Len(t, errs, maxOverlaps+1)
	require.Equal(t, "spec.reservedNodes: Forbidden: 5000 nodes in all are already in other Reservations", errs[maxOverlaps].Error())
}

func podBinding(namespace string, change ...func(*v1alpha1.ReservationBinding)) *v1alpha1.ReservationBinding {
	b := &v1alpha1.ReservationBinding{ObjectMeta: metav1.ObjectMeta{Name: "tenant-foo-binding", Namespace: namespace}}
	b.Spec.ReservationName = "tenant-foo-reservation"
	b.Spec.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/managed-by": "tenant-foo"}}
	for _, f := range change {
		f(b)
	}
	return b
}

func broken(b *v1alpha1.ReservationBinding) {
	b.Spec.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "not a value"}}
}

func inert(b *v1alpha1.ReservationBinding) {
	b.Spec.InjectAffinity, b.Spec.InjectToleration = ptr.To(false), ptr.To(false)
}

func TestBinding(t *testing.T) {
	secret := reservation("tenant-foo")
	secret.Spec.Namespaces = []string{"secret-project"}
	for name, tc := range map[string]struct {
		candidate, old *v1alpha1.ReservationBinding
		reservation    *v1alpha1.Reservation
		want           []string // contained in the errors
		wantWarning    string
	}{
		"the page's own example": {candidate: podBinding("tenant-foo"), reservation: reservation("tenant-foo")},
		"a foreign namespace": {
			candidate: podBinding("tenant-bar"), reservation: reservation("tenant-foo"),
			want: []string{"spec.reservationName: Forbidden: Reservation tenant-foo-reservation does not accept namespace tenant-bar; ask the platform team"}},
		"no such Reservation": {candidate: podBinding("tenant-foo"), wantWarning: "until there is a Reservation tenant-foo-reservation"},
		"a Reservation that is being deleted": {
			candidate: podBinding("tenant-foo"), reservation: going(reservation("tenant-foo")), wantWarning: "being deleted"},
		"a foreign namespace of one that is being deleted": {
			candidate: podBinding("tenant-bar"), reservation: going(reservation("tenant-foo")), want: []string{"does not accept namespace"}, wantWarning: "being deleted"},
		"a selector that does not parse": {
			candidate: podBinding("tenant-foo", broken), reservation: reservation("tenant-foo"), want: []string{"spec.podSelector: Invalid value"}},
		"everything wrong at once": {
			candidate: podBinding("tenant-bar", broken), reservation: secret, want: []string{"spec.reservationName: Forbidden", "spec.podSelector: Invalid value"}},
		"no selector": {
			candidate: podBinding("tenant-foo", func(b *v1alpha1.ReservationBinding) { b.Spec.PodSelector = nil }),
			want:      []string{"{} selects every pod"}, wantWarning: "until there is"},
		"injecting neither":                   {candidate: podBinding("tenant-foo", inert), reservation: reservation("tenant-foo"), wantWarning: "are both false"},
		"a change that leaves the spec alone": {candidate: podBinding("tenant-bar", broken), old: podBinding("tenant-bar", broken), reservation: secret},
		"a change of the spec": {
			candidate: podBinding("tenant-bar"), old: podBinding("tenant-bar", inert), reservation: secret, want: []string{"does not accept namespace"}},
		"one that is being deleted": {candidate: going(podBinding("tenant-bar", broken)), old: podBinding("tenant-bar"), reservation: secret},
	} {
		t.Run(name, func(t *testing.T) {
			got := messages(Binding(tc.candidate, tc.old, tc.reservation))
			require.Len(t, got, len(tc.want))
			for i := range tc.want {
				require.Contains(t, got[i], tc.want[i])
				require.NotContains(t, got[i], "secret-project")
			}
			warnings := BindingWarnings(tc.candidate, tc.old, tc.reservation)
			if tc.wantWarning == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], tc.wantWarning)
		})
	}
}
