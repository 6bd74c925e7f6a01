package binding

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func called(name string) func(*v1alpha1.ReservationBinding) {
	return func(b *v1alpha1.ReservationBinding) { b.Name = name }
}

func naming(reservation string) func(*v1alpha1.ReservationBinding) {
	return func(b *v1alpha1.ReservationBinding) { b.Spec.ReservationName = reservation }
}

func TestDecide_sorts_and_names_each_namespace_once(t *testing.T) {
	reservations := []v1alpha1.Reservation{
		*reservation(accepting("b-ns", "a-ns")),
		*reservation(deleted, func(r *v1alpha1.Reservation) { r.Name = "going" }),
	}
	bindings := []v1alpha1.ReservationBinding{
		*bindingIn("b-ns", called("2")), *bindingIn("b-ns", called("1")), *bindingIn("a-ns"), *bindingIn("c-ns"),
		*bindingIn("a-ns", called("z"), broken), *bindingIn("d-ns", naming("missing")), *bindingIn("tenant-foo", naming("going")),
	}
	for range 20 {
		rand.Shuffle(len(bindings), func(i, j int) { bindings[i], bindings[j] = bindings[j], bindings[i] })
		decisions, bound := Decide(bindings, reservations)
		require.Equal(t, []string{"a-ns", "b-ns"}, bound)
		var got []string
		for _, d := range decisions {
			got = append(got, d.Binding.Namespace+"/"+d.Binding.Name+" "+d.Tenant+d.Reason)
			require.Equal(t, d.Reason == "", d.Accepted())
			require.Equal(t, d.Reason == "", d.Message == "")
		}
		require.Equal(t, []string{
			"a-ns/tenant-foo-binding tenant-foo",
			"a-ns/z InvalidPodSelector",
			"b-ns/1 tenant-foo",
			"b-ns/2 tenant-foo",
			"c-ns/tenant-foo-binding NamespaceNotAccepted",
			"d-ns/tenant-foo-binding ReservationNotFound",
			"tenant-foo/tenant-foo-binding ReservationTerminating",
		}, got)
	}
	decisions, bound := Decide(nil, nil)
	require.Empty(t, decisions)
	require.Empty(t, bound)
}

func TestInjected(t *testing.T) {
	inject := func(affinity, toleration *bool) Decision {
		b := bindingIn("tenant-foo")
		b.Spec.InjectAffinity, b.Spec.InjectToleration = affinity, toleration
		return Decision{Binding: b, Tenant: "tenant-foo"}
	}
	no := ptr.To(false)
	const all = "pods of namespace tenant-foo that match are injected for tenant tenant-foo"
	require.Equal(t, all, injected(inject(nil, nil)))
	require.Equal(t, all+" (the toleration alone)", injected(inject(no, nil)))
	require.Equal(t, all+" (the affinity alone)", injected(inject(nil, no)))
	require.Contains(t, injected(inject(no, no)), "nothing is injected")
}
