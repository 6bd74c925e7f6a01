package check

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// reservation makes one that was created so many hours after the epoch; -1 is one that is not created yet.
func reservation(name string, hour int, nodes ...string) v1alpha1.Reservation {
	r := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.Tenant = name
	r.Spec.ReservedNodes = nodes
	if hour >= 0 {
		r.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(hour) * time.Hour))
		r.UID = types.UID("uid-of-" + name)
	}
	return r
}

func deleting(r v1alpha1.Reservation) v1alpha1.Reservation {
	r.DeletionTimestamp = &metav1.Time{Time: epoch}
	return r
}

func uid(r v1alpha1.Reservation, uid types.UID) v1alpha1.Reservation {
	r.UID = uid
	return r
}

func TestOverlaps(t *testing.T) {
	for name, tc := range map[string]struct {
		in   []v1alpha1.Reservation
		want []string
	}{
		"nothing at all":            {},
		"lists that share no node":  {in: []v1alpha1.Reservation{reservation("a", 0, "n1", "n2"), reservation("b", 1, "n3")}},
		"the older comes first":     {in: []v1alpha1.Reservation{reservation("a", 1, "n1"), reservation("b", 0, "n1")}, want: []string{"n1: b, a"}},
		"same age, the smaller UID": {in: []v1alpha1.Reservation{uid(reservation("a", 0, "n1"), "2"), uid(reservation("b", 0, "n1"), "1")}, want: []string{"n1: b, a"}},
		"neither created, the smaller name": {
			in: []v1alpha1.Reservation{reservation("b", -1, "n1"), reservation("a", -1, "n1")}, want: []string{"n1: a, b"}},
		"one that lives wins over one that is not created yet": {
			in: []v1alpha1.Reservation{reservation("a", -1, "n1"), reservation("b", 7, "n1")}, want: []string{"n1: b, a"}},
		"one that is being deleted claims nothing": {
			in: []v1alpha1.Reservation{deleting(reservation("a", 0, "n1")), reservation("b", 1, "n1")}},
		"a name twice in one list is no overlap": {in: []v1alpha1.Reservation{reservation("a", 0, "n1", "n1")}},
		"a name twice in the second list is one overlap": {
			in: []v1alpha1.Reservation{reservation("a", 0, "n1"), reservation("b", 1, "n1", "n1")}, want: []string{"n1: a, b"}},
		"two entries of one name are one object": {in: []v1alpha1.Reservation{reservation("a", 0, "n1"), reservation("a", 0, "n1")}},
		"three claimants give two overlaps with the same first": {
			in:   []v1alpha1.Reservation{reservation("c", 2, "n1"), reservation("b", 1, "n1"), reservation("a", 0, "n1")},
			want: []string{"n1: a, b", "n1: a, c"}},
		"sorted by node": {
			in:   []v1alpha1.Reservation{reservation("a", 0, "n3", "n1", "n2"), reservation("b", 1, "n2", "n3", "n1")},
			want: []string{"n1: a, b", "n2: a, b", "n3: a, b"}},
		"one tenant's two Reservations overlap too": {
			in: []v1alpha1.Reservation{tenant(reservation("a", 0, "n1"), "foo"), tenant(reservation("b", 1, "n1"), "foo")}, want: []string{"n1: a, b"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				require.Equal(t, tc.want, lines(Overlaps(tc.in)))
				rand.Shuffle(len(tc.in), func(i, j int) { tc.in[i], tc.in[j] = tc.in[j], tc.in[i] })
			}
		})
	}
}

func tenant(r v1alpha1.Reservation, tenant string) v1alpha1.Reservation {
	r.Spec.Tenant = tenant
	return r
}

func lines(overlaps []Overlap) []string {
	var out []string
	for _, o := range overlaps {
		out = append(out, o.Node+": "+o.First.Name+", "+o.Second.Name)
	}
	return out
}

func BenchmarkOverlaps(b *testing.B) {
	var in []v1alpha1.Reservation
	for i := range 1000 {
		r := reservation("r"+time.Duration(i).String(), i)
		for j := range 10 {
			r.Spec.ReservedNodes = append(r.Spec.ReservedNodes, "n"+time.Duration(10*i+j).String())
		}
		in = append(in, r)
	}
	for b.Loop() {
		Overlaps(in)
	}
}
