package sim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// userActs are what platform users do.
var userActs = []act{
	{"reserve", 40, (*world).reserve},
	{"unreserve", 5, func(w *world, d dice) string {
		name := aReservation(d)
		w.server.delete(nil, reservations, name, nil)
		return name
	}},
	{"tear off", 2, func(w *world, d dice) string {
		name := aReservation(d)
		edit(w.server, reservations, name, func(r *v1alpha1.Reservation) { r.Finalizers = nil })
		return "the finalizer of " + name
	}},
	{"bind tenant", 5, func(w *world, d dice) string {
		namespace, name := d.one("t0", "t1", "t2"), "b"
		if w.server.get(bindings, keyFor(namespace, name)) != nil {
			w.server.remove(nil, bindings, keyFor(namespace, name))
			return "no longer in " + namespace
		}
		w.server.put(nil, &v1alpha1.ReservationBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1alpha1.ReservationBindingSpec{ReservationName: aReservation(d), PodSelector: &metav1.LabelSelector{}},
		})
		return "in " + namespace
	}},
}

// reserve makes or changes a Reservation. One that is made anew may have another tenant.
func (w *world) reserve(d dice) string {
	name := aReservation(d)
	if r := w.server.reservation(name); r != nil {
		edit(w.server, reservations, name, func(r *v1alpha1.Reservation) { w.change(d, &r.Spec) })
		return name + " changes"
	}
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.Tenant, r.Spec.ApplyTaint, r.Spec.TaintEffect = d.one("t0", "t1", "t2"), ptr.To(true), corev1.TaintEffectNoSchedule
	w.claim(d, &r.Spec)
	w.change(d, &r.Spec)
	w.server.put(nil, r)
	return fmt.Sprintf("%s for %s", name, r.Spec.Tenant)
}

// claim says which nodes: by name, by pool, or by name out of a pool.
func (w *world) claim(d dice, s *v1alpha1.ReservationSpec) {
	s.NodeSelector, s.ReservedNodes = nil, nil
	if d.in(4) {
		s.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": d.one("a", "b")}}
	}
	if s.NodeSelector == nil || d.in(3) {
		s.ReservedNodes = []string{}
		for _, i := range d.Perm(len(w.nodes))[:d.IntN(len(w.nodes))] {
			s.ReservedNodes = append(s.ReservedNodes, w.nodes[i])
		}
	}
	if d.in(60) {
		s.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Near"}}}
	}
}

// change edits some of a spec.
func (w *world) change(d dice, s *v1alpha1.ReservationSpec) {
	if !d.in(3) {
		w.claim(d, s)
	}
	if d.in(3) {
		s.EvictOnRelease = d.in(2)
	}
	if d.in(3) {
		s.EvictAfter, s.DeleteAfter, s.EvictGracePeriod = nil, nil, nil
		if d.in(2) {
			s.EvictAfter = &metav1.Duration{Duration: time.Duration(1+d.IntN(4)) * time.Minute}
		}
		if d.in(3) {
			s.DeleteAfter = &metav1.Duration{Duration: time.Duration(5+d.IntN(20)) * time.Minute}
		}
		if d.in(2) {
			s.EvictGracePeriod = &metav1.Duration{Duration: time.Duration(1+d.IntN(60)) * time.Second}
		}
	}
	if d.in(6) {
		s.ApplyTaint = ptr.To(!d.in(3))
	}
	if d.in(5) {
		s.TaintEffect = corev1.TaintEffect(d.one("NoSchedule", "PreferNoSchedule", "NoExecute"))
	}
	if d.in(6) {
		s.Namespaces = nil
		for _, extra := range []string{s.Tenant, s.Tenant + "-b", "shared"} {
			if d.in(2) {
				s.Namespaces = append(s.Namespaces, extra)
			}
		}
		slices.Sort(s.Namespaces)
	}
}
