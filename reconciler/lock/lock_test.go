package lock_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
)

var (
	alpha  = taint("reserved", "alpha", corev1.TaintEffectNoSchedule)
	notRdy = taint("node.kubernetes.io/not-ready", "", corev1.TaintEffectNoExecute)
	since  = time.Date(2026, 12, 2, 3, 4, 5, 0, time.UTC)
)

// What a node bears: options of a test's node.
type option func(*corev1.Node)

func nodeWith(options ...option) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "gpu-01", ResourceVersion: "7", Labels: map[string]string{"pool": "h200"}, Annotations: map[string]string{"cni": "x"},
	}}
	for _, o := range options {
		o(n)
	}
	return n
}

func label(tenant string) option {
	return func(n *corev1.Node) { n.Labels[v1alpha1.LabelTenant] = tenant }
}

func annotation(key, value string) option {
	return func(n *corev1.Node) { n.Annotations[key] = value }
}

func tainted(taints ...corev1.Taint) option {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taints...) }
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

// locked is a whole lock of alpha's Reservation r-alpha with the usual effect.
func locked(n *corev1.Node) {
	label("alpha")(n)
	annotation(v1alpha1.AnnotationReservation, "r-alpha")(n)
	annotation(v1alpha1.AnnotationTaintEffect, "NoSchedule")(n)
	tainted(alpha)(n)
}

func draining(n *corev1.Node) {
	locked(n)
	annotation(v1alpha1.AnnotationReleasingSince, since.Format(time.RFC3339))(n)
	annotation(v1alpha1.AnnotationCordoned, "r-alpha")(n)
	cordoned(n)
}

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

func reservation(tenant string, options ...func(*v1alpha1.ReservationSpec)) *v1alpha1.Reservation {
	r := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "r-" + tenant},
		Spec:       v1alpha1.ReservationSpec{Tenant: tenant, ReservedNodes: []string{"gpu-01"}},
	}
	for _, o := range options {
		o(&r.Spec)
	}
	return r
}

func untainting(s *v1alpha1.ReservationSpec) { s.ApplyTaint = ptr.To(false) }

func effect(e corev1.TaintEffect) func(*v1alpha1.ReservationSpec) {
	return func(s *v1alpha1.ReservationSpec) { s.TaintEffect = e }
}

func requireEqual(t *testing.T, want, got *corev1.Node) {
	t.Helper()
	require.Empty(t, cmp.Diff(want, got, cmpopts.EquateEmpty()))
}

func TestOn(t *testing.T) {
	since := metav1.NewTime(since)
	timed := alpha
	timed.TimeAdded = &since
	cases := map[string]struct {
		node        *corev1.Node
		reservation *v1alpha1.Reservation
		want        *corev1.Node
	}{
		"a free node gets label, taint and annotations": {
			nodeWith(), reservation("alpha"), nodeWith(locked),
		},
		"a node without any label or annotation gets its first": {
			&corev1.Node{}, reservation("alpha"), &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      map[string]string{v1alpha1.LabelTenant: "alpha"},
					Annotations: map[string]string{v1alpha1.AnnotationReservation: "r-alpha", v1alpha1.AnnotationTaintEffect: "NoSchedule"},
				},
				Spec: corev1.NodeSpec{Taints: []corev1.Taint{alpha}},
			},
		},
		"without applyTaint there is no taint and no memory of one": {
			nodeWith(), reservation("alpha", untainting), nodeWith(label("alpha"), annotation(v1alpha1.AnnotationReservation, "r-alpha")),
		},
		"applyTaint switched off takes the taint away": {
			nodeWith(locked), reservation("alpha", untainting), nodeWith(label("alpha"), annotation(v1alpha1.AnnotationReservation, "r-alpha")),
		},
		"applyTaint switched on adds it": {
			nodeWith(label("alpha"), annotation(v1alpha1.AnnotationReservation, "r-alpha")), reservation("alpha"), nodeWith(locked),
		},
		"applyTaint switched off leaves a person's taint of the other effect": {
			nodeWith(locked, tainted(taint("reserved", "alpha", corev1.TaintEffectNoExecute))), reservation("alpha", untainting),
			nodeWith(label("alpha"), annotation(v1alpha1.AnnotationReservation, "r-alpha"), tainted(taint("reserved", "alpha", corev1.TaintEffectNoExecute))),
		},
		"a changed effect replaces the taint in one state, and others' taints stay in their places": {
			nodeWith(tainted(notRdy), locked, tainted(taint("other", "", corev1.TaintEffectNoSchedule))),
			reservation("alpha", effect(corev1.TaintEffectNoExecute)),
			nodeWith(label("alpha"), annotation(v1alpha1.AnnotationReservation, "r-alpha"), annotation(v1alpha1.AnnotationTaintEffect, "NoExecute"),
				tainted(notRdy, taint("other", "", corev1.TaintEffectNoSchedule), taint("reserved", "alpha", corev1.TaintEffectNoExecute))),
		},
		"a handover replaces the other tenant's lock, cordon and release time": {
			nodeWith(draining), reservation("beta"),
			nodeWith(label("beta"), annotation(v1alpha1.AnnotationReservation, "r-beta"), annotation(v1alpha1.AnnotationTaintEffect, "NoSchedule"),
				tainted(taint("reserved", "beta", corev1.TaintEffectNoSchedule))),
		},
		"a handover to a Reservation without a taint takes the old one away": {
			nodeWith(locked), reservation("beta", untainting), nodeWith(label("beta"), annotation(v1alpha1.AnnotationReservation, "r-beta")),
		},
		"a release that is called off is undone, our cordon too": {
			nodeWith(draining), reservation("alpha"), nodeWith(locked),
		},
		"a cordon without our mark stays": {
			nodeWith(cordoned), reservation("alpha"), nodeWith(locked, cordoned),
		},
		"a mark of ours on a node that somebody uncordoned goes": {
			nodeWith(locked, annotation(v1alpha1.AnnotationCordoned, "r-alpha")), reservation("alpha"), nodeWith(locked),
		},
		"a taint that is right already keeps its time": {
			nodeWith(tainted(timed, notRdy)), reservation("alpha"),
			nodeWith(label("alpha"), annotation(v1alpha1.AnnotationReservation, "r-alpha"), annotation(v1alpha1.AnnotationTaintEffect, "NoSchedule"), tainted(timed, notRdy)),
		},
		"a label that somebody changed is put right, and the taint that is right stays": {
			nodeWith(locked, label("other")), reservation("alpha"), nodeWith(locked),
		},
		"a label that somebody removed is put back": {
			nodeWith(locked, func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelTenant) }), reservation("alpha"), nodeWith(locked),
		},
		"a label that somebody removed does not hide our taint from a handover": {
			nodeWith(locked, func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelTenant) }), reservation("beta"),
			nodeWith(label("beta"), annotation(v1alpha1.AnnotationReservation, "r-beta"), annotation(v1alpha1.AnnotationTaintEffect, "NoSchedule"),
				tainted(taint("reserved", "beta", corev1.TaintEffectNoSchedule))),
		},
		"a lock made by hand is taken over, whatever effect it has": {
			nodeWith(label("alpha"), tainted(taint("reserved", "alpha", corev1.TaintEffectNoExecute))), reservation("alpha"), nodeWith(locked),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := c.node.DeepCopy()
			got, err := lock.On(c.node, c.reservation)
			require.NoError(t, err)
			requireEqual(t, c.want, got)
			requireEqual(t, before, c.node)
			require.True(t, lock.Holds(got, c.reservation))
		})
	}
}

func TestCases_A15_OnlyOurTaintIsTouched(t *testing.T) {
	autoscaler := taint("ToBeDeletedByClusterAutoscaler", "1", corev1.TaintEffectNoSchedule)
	n := nodeWith(tainted(notRdy))
	on, err := lock.On(n, reservation("alpha"))
	require.NoError(t, err)
	require.Equal(t, []corev1.Taint{notRdy, alpha}, on.Spec.Taints)

	on.Spec.Taints = append(on.Spec.Taints[1:], autoscaler) // others took not-ready off and put theirs on
	require.True(t, lock.Holds(on, reservation("alpha")), "others' taints are nothing to us")
	require.Equal(t, []corev1.Taint{autoscaler}, lock.Off(on).Spec.Taints)
}

func TestCases_A16_OnlyOurCordonIsUndone(t *testing.T) {
	cases := map[string]struct {
		node              *corev1.Node
		wantUnschedulable bool
	}{
		"cordoned by an admin before the release": {lock.Releasing(nodeWith(locked, cordoned), "r-alpha", since), true},
		"cordoned by us": {lock.Releasing(nodeWith(locked), "r-alpha", since), false},
		"never cordoned": {nodeWith(locked), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.wantUnschedulable, lock.Off(c.node).Spec.Unschedulable)
			on, err := lock.On(c.node, reservation("alpha"))
			require.NoError(t, err)
			require.Equal(t, c.wantUnschedulable, on.Spec.Unschedulable)
		})
	}
	t.Run("a node that the cloud provider has not initialised keeps that taint, locked and released", func(t *testing.T) {
		uninitialized := taint("node.cloudprovider.kubernetes.io/uninitialized", "true", corev1.TaintEffectNoSchedule)
		on, err := lock.On(nodeWith(tainted(uninitialized)), reservation("alpha"))
		require.NoError(t, err)
		require.Contains(t, on.Spec.Taints, uninitialized)
		require.Equal(t, []corev1.Taint{uninitialized}, lock.Off(on).Spec.Taints)
	})
}

func TestCases_A17_SameKeyOtherValueOrEffect(t *testing.T) {
	t.Run("another value of our effect is a conflict that names node, taint and remedy", func(t *testing.T) {
		n := nodeWith(tainted(taint("reserved", "old", corev1.TaintEffectNoSchedule)))
		_, err := lock.On(n, reservation("alpha"))
		var conflict *lock.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, "gpu-01", conflict.Node)
		require.Equal(t, "old", conflict.Taint.Value)
		require.ErrorContains(t, err, "reserved=old:NoSchedule")
		require.ErrorContains(t, err, "kubectl taint node gpu-01 reserved:NoSchedule-")
		require.False(t, lock.Holds(n, reservation("alpha")))
	})
	t.Run("it is none for a Reservation that does not taint", func(t *testing.T) {
		on, err := lock.On(nodeWith(tainted(taint("reserved", "old", corev1.TaintEffectNoSchedule))), reservation("alpha", untainting))
		require.NoError(t, err)
		require.Len(t, on.Spec.Taints, 1)
	})
	t.Run("a changed effect that meets another's value is a conflict, and the old lock stays", func(t *testing.T) {
		n := nodeWith(locked, tainted(taint("reserved", "old", corev1.TaintEffectNoExecute)))
		_, err := lock.On(n, reservation("alpha", effect(corev1.TaintEffectNoExecute)))
		require.ErrorAs(t, err, new(*lock.ConflictError))
		require.Contains(t, n.Spec.Taints, alpha)
	})
	t.Run("another effect of our value is kept, and release removes only ours", func(t *testing.T) {
		theirs := taint("reserved", "alpha", corev1.TaintEffectNoExecute)
		on, err := lock.On(nodeWith(tainted(theirs)), reservation("alpha"))
		require.NoError(t, err)
		require.Equal(t, []corev1.Taint{theirs, alpha}, on.Spec.Taints)
		require.Equal(t, []corev1.Taint{theirs}, lock.Off(on).Spec.Taints)
	})
	t.Run("our own value is replaced in one state", func(t *testing.T) {
		on, err := lock.On(nodeWith(locked), reservation("alpha-2"))
		require.NoError(t, err)
		require.Equal(t, []corev1.Taint{taint("reserved", "alpha-2", corev1.TaintEffectNoSchedule)}, on.Spec.Taints)
	})
}

func TestOff(t *testing.T) {
	cases := map[string]struct{ node, want *corev1.Node }{
		"a lock goes whole":                                   {nodeWith(tainted(notRdy), draining), nodeWith(tainted(notRdy))},
		"a free node stays as it is":                          {nodeWith(cordoned), nodeWith(cordoned)},
		"a lock made by hand goes too":                        {nodeWith(label("x"), tainted(taint("reserved", "x", corev1.TaintEffectNoExecute))), nodeWith()},
		"a taint of another tenant stays":                     {nodeWith(locked, tainted(taint("reserved", "b", corev1.TaintEffectNoExecute))), nodeWith(tainted(taint("reserved", "b", corev1.TaintEffectNoExecute)))},
		"our taint goes where somebody removed the label":     {nodeWith(locked, func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelTenant) }), nodeWith()},
		"our cordon goes where somebody removed all the rest": {nodeWith(cordoned, annotation(v1alpha1.AnnotationCordoned, "r-alpha")), nodeWith()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := c.node.DeepCopy()
			got := lock.Off(c.node)
			requireEqual(t, c.want, got)
			requireEqual(t, before, c.node)
			require.False(t, lock.Bears(got))
		})
	}
}

func TestBears(t *testing.T) {
	require.False(t, lock.Bears(&corev1.Node{}))
	require.False(t, lock.Bears(nodeWith(cordoned, tainted(alpha))), "a taint and a cordon alone may be anybody's")
	for name, part := range map[string]option{
		"label": label("x"), "holder": annotation(v1alpha1.AnnotationReservation, "r"),
		"effect": annotation(v1alpha1.AnnotationTaintEffect, "NoSchedule"),
		"since":  annotation(v1alpha1.AnnotationReleasingSince, "x"), "cordon": annotation(v1alpha1.AnnotationCordoned, "r"),
	} {
		require.True(t, lock.Bears(nodeWith(part)), name)
	}
}

func TestReleasing(t *testing.T) {
	t.Run("cordons and marks the cordon as ours", func(t *testing.T) {
		requireEqual(t, nodeWith(draining), lock.Releasing(nodeWith(locked), "r-alpha", since.In(time.FixedZone("x", 3600))))
	})
	t.Run("leaves another's cordon without our mark", func(t *testing.T) {
		want := nodeWith(locked, cordoned, annotation(v1alpha1.AnnotationReleasingSince, since.Format(time.RFC3339)))
		requireEqual(t, want, lock.Releasing(nodeWith(locked, cordoned), "r-alpha", since))
	})
}

func TestSince(t *testing.T) {
	for name, c := range map[string]struct {
		node   *corev1.Node
		want   time.Time
		wantOK bool
	}{
		"what Releasing wrote":       {lock.Releasing(nodeWith(), "r", since), since, true},
		"nothing":                    {nodeWith(), time.Time{}, false},
		"what somebody else wrote":   {nodeWith(annotation(v1alpha1.AnnotationReleasingSince, "yesterday")), time.Time{}, false},
		"a time in another timezone": {nodeWith(annotation(v1alpha1.AnnotationReleasingSince, "2026-12-02T04:04:05+01:00")), since, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := lock.Since(c.node)
			require.Equal(t, c.wantOK, ok)
			require.True(t, c.want.Equal(got), got)
		})
	}
}

func TestDisowned(t *testing.T) {
	require.Nil(t, lock.Disowned(nodeWith(draining)), "it is still cordoned")
	require.Nil(t, lock.Disowned(nodeWith(cordoned)), "it was never ours")
	uncordoned := nodeWith(draining)
	uncordoned.Spec.Unschedulable = false
	got := lock.Disowned(uncordoned)
	require.NotContains(t, got.Annotations, v1alpha1.AnnotationCordoned)
	require.False(t, got.Spec.Unschedulable)
	got.Spec.Unschedulable = true // the next cordon is somebody else's
	require.True(t, lock.Off(got).Spec.Unschedulable)
}

func TestHolds(t *testing.T) {
	cases := map[string]struct {
		node *corev1.Node
		want bool
	}{
		"whole":                           {nodeWith(locked), true},
		"whole beside others' things":     {nodeWith(locked, cordoned, tainted(notRdy), annotation("a", "b")), true},
		"free":                            {nodeWith(), false},
		"without its taint":               {nodeWith(locked, func(n *corev1.Node) { n.Spec.Taints = nil }), false},
		"without its label":               {nodeWith(locked, func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelTenant) }), false},
		"with the label of another":       {nodeWith(locked, label("beta")), false},
		"with another holder":             {nodeWith(locked, annotation(v1alpha1.AnnotationReservation, "r-alpha-2")), false},
		"being released":                  {nodeWith(draining), false},
		"with another's taint in its way": {nodeWith(locked, func(n *corev1.Node) { n.Spec.Taints[0].Value = "old" }), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, lock.Holds(c.node, reservation("alpha"))) })
	}
}

func TestSame(t *testing.T) {
	require.True(t, lock.Same(nodeWith(locked), nodeWith(locked, tainted(notRdy), annotation("a", "b"),
		func(n *corev1.Node) { n.Labels["pool"] = "x"; n.ResourceVersion = "8" })), "what others change makes no difference")
	for name, change := range map[string]option{
		"label": label("x"), "cordon": cordoned, "taint": tainted(taint("reserved", "x", corev1.TaintEffectNoExecute)),
		"holder": annotation(v1alpha1.AnnotationReservation, "x"), "effect": annotation(v1alpha1.AnnotationTaintEffect, "x"),
		"since": annotation(v1alpha1.AnnotationReleasingSince, ""), "mark": annotation(v1alpha1.AnnotationCordoned, ""),
	} {
		require.False(t, lock.Same(nodeWith(locked), nodeWith(locked, change)), name)
	}
}

// world makes nodes and Reservations of all sorts.
type world struct{ *rand.Rand }

// own returns a node that bears nothing of ours: others' labels, annotations, cordons and taints, of our key too.
func (w world) own() *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", w.IntN(9))}}
	if w.IntN(2) == 0 {
		n.Labels = map[string]string{"pool": "a", "zone": "b"}
	}
	if w.IntN(2) == 0 {
		n.Annotations = map[string]string{"cni": "c"}
	}
	n.Spec.Unschedulable = w.IntN(3) == 0
	seen := map[string]bool{}
	for range w.IntN(5) {
		t := taint([]string{"reserved", "gpu", "not-ready"}[w.IntN(3)], []string{"alpha", "old", ""}[w.IntN(3)], w.effect())
		if unique := t.Key + string(t.Effect); !seen[unique] {
			seen[unique] = true
			n.Spec.Taints = append(n.Spec.Taints, t)
		}
	}
	return n
}

func (w world) effect() corev1.TaintEffect {
	return []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}[w.IntN(3)]
}

func (w world) reservation() *v1alpha1.Reservation {
	r := reservation([]string{"alpha", "beta", "gamma"}[w.IntN(3)], effect(w.effect()))
	if w.IntN(4) == 0 {
		untainting(&r.Spec)
	}
	return r
}

func TestProperties(t *testing.T) {
	for seed := range uint64(1000) {
		w := world{rand.New(rand.NewPCG(seed, 0))}
		own, r, other := w.own(), w.reservation(), w.reservation()
		on, err := lock.On(own, r)
		if err != nil {
			require.ErrorAs(t, err, new(*lock.ConflictError))
			continue
		}
		adopted := false // a taint that is exactly ours already becomes ours
		for _, o := range own.Spec.Taints {
			adopted = adopted || r.Taints() && o == taint("reserved", r.Spec.Tenant, r.Effect())
		}
		twice, err := lock.On(on, r)
		require.NoError(t, err)
		requireEqual(t, on, twice)
		require.True(t, lock.Bears(on))
		requireUniqueTaints(t, on)
		if !adopted {
			requireEqual(t, own, lock.Off(on))
			requireEqual(t, own, lock.Off(lock.Releasing(on, r.Name, since)))
		}
		back, err := lock.On(lock.Releasing(on, r.Name, since), r)
		require.NoError(t, err)
		requireEqual(t, on, back)
		requireEqual(t, lock.Off(on), lock.Off(lock.Off(on)))

		handed, err := lock.On(lock.Releasing(on, r.Name, since), other)
		if err != nil {
			continue
		}
		requireUniqueTaints(t, handed)
		if !adopted {
			direct, err := lock.On(own, other)
			require.NoError(t, err, "seed %d", seed)
			require.ElementsMatch(t, direct.Spec.Taints, handed.Spec.Taints, "seed %d", seed)
			direct.Spec.Taints, handed.Spec.Taints = nil, nil
			requireEqual(t, direct, handed)
		}
	}
}

func requireUniqueTaints(t *testing.T, n *corev1.Node) {
	t.Helper()
	seen := map[string]bool{}
	for _, taint := range n.Spec.Taints {
		key := taint.Key + ":" + string(taint.Effect)
		require.False(t, seen[key], "the API allows one taint per key and effect, got two of %s", key)
		seen[key] = true
	}
}
