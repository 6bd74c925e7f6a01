package allocate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
)

// worker returns a Reconciler over a server and what it has cached.
func worker(server, cached client.Client) *Reconciler {
	return &Reconciler{
		Client: cached, Live: server, Namespace: v1alpha1.OperatorNamespace, Ledger: &ledger.Ledger{}, View: &View{},
		Clock: clocktesting.NewFakePassiveClock(metav1.Now().Time),
	}
}

func serving(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Client {
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

// Found by the simulation: the index is lost, and the Reservation cannot take its finalizer just then.
func TestALockedNodeStaysInARebuiltIndex(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", Labels: map[string]string{v1alpha1.LabelTenant: "foo"}, Annotations: map[string]string{v1alpha1.AnnotationReservation: "foo"},
	}}
	reservation := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "foo"}, Spec: v1alpha1.ReservationSpec{Tenant: "foo", ReservedNodes: []string{"n1"}},
	}
	server := serving(t, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("reservations").GroupResource(), "foo", nil)
		},
	}, node, reservation)
	decision, unkept, err := worker(server, server).decide(t.Context())
	require.NoError(t, err)
	require.True(t, apierrors.IsConflict(unkept))
	require.Equal(t, map[string]Grant{"n1": {Reservation: "foo", Phase: Releasing}}, decision.Index.Grants)
}

// Found by the simulation: a node that comes back is locked between the last look at it and the index without it.
func TestANodeThatIsThereAfterAllIsNotForgotten(t *testing.T) {
	held, releasing := Grant{Reservation: "foo", Namespaces: []string{"foo"}}, Grant{Reservation: "foo", Phase: Releasing}
	index := Index{Version: 7, Grants: map[string]Grant{"n1": held, "n2": held, "n3": releasing, "n4": releasing}}
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OperatorNamespace, Name: v1alpha1.IndexName}, Data: index.Data()}
	objects := []client.Object{stored}
	for _, name := range []string{"n1", "n3", "n4"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	server := serving(t, interceptor.Funcs{}, objects...)
	r := worker(server, server)
	r.View.Publish(Decision{Index: index}, "")
	decided := Index{Grants: map[string]Grant{}}
	require.NoError(t, r.keepLocked(t.Context(), Snapshot{Index: index, Drained: map[string]bool{"n4": true}}, decided))
	require.Equal(t, map[string]Grant{"n1": releasing, "n3": releasing}, decided.Grants)
	_, granted, _, enforced := r.View.Grant("n2")
	require.True(t, granted)
	require.False(t, enforced, "nobody locks a node while it is being forgotten")
}

func TestAWithheldNodeIsToldOfTheNextPublication(t *testing.T) {
	v, l := &View{}, &listener{}
	l.listen(v)
	d := Decision{Index: Index{Version: 1, Grants: map[string]Grant{"n1": {Reservation: "foo"}, "n2": {Reservation: "foo"}}}}
	v.Publish(d, "")
	l.take()
	v.Withhold([]string{"n1"})
	v.Withhold([]string{"n2"})
	_, _, _, enforced := v.Grant("n1")
	require.False(t, enforced)
	v.Publish(d, "")
	nodes, _ := l.take()
	require.Equal(t, []string{"n1", "n2"}, nodes)
	_, _, _, enforced = v.Grant("n1")
	require.True(t, enforced)
}

// Found by the simulation: the Reservation was made anew for another tenant, and the cache does not know of the lock yet.
func TestANodeWithoutALockInSightIsNotTakenOver(t *testing.T) {
	claims := func(name string, nodes ...string) v1alpha1.Reservation {
		return v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ReservationSpec{Tenant: "bar", ReservedNodes: nodes}}
	}
	d := Decide(Snapshot{
		Reservations: []v1alpha1.Reservation{claims("anew", []string{}...), claims("other", "n1")}, Nodes: []Node{{Name: "n1"}},
		Index: Index{Version: 1, Grants: map[string]Grant{"n1": {Reservation: "anew", Namespaces: []string{"foo"}}}},
	})
	require.Equal(t, map[string]Grant{"n1": {Reservation: "anew", Phase: Releasing}}, d.Index.Grants)
}

// Found by the simulation: a node was being unlocked while the index was deleted and made again from the locks.
func TestAnIndexThatIsDeletedUnderARunningOperatorComesBackAsItWas(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", Labels: map[string]string{v1alpha1.LabelTenant: "foo"}, Annotations: map[string]string{v1alpha1.AnnotationReservation: "foo"},
	}}
	index := Index{Version: 7, Grants: map[string]Grant{"n1": {Reservation: "foo", Phase: Freed}}}
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OperatorNamespace, Name: v1alpha1.IndexName}, Data: index.Data()}
	reservation := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "foo"}, Spec: v1alpha1.ReservationSpec{Tenant: "foo", ReservedNodes: []string{"n1"}},
	}
	server := serving(t, interceptor.Funcs{}, node, reservation, stored)
	r := worker(server, server)
	_, _, err := r.decide(t.Context())
	require.NoError(t, err)
	require.NoError(t, server.Delete(t.Context(), stored))
	decision, _, err := r.decide(t.Context())
	require.NoError(t, err)
	require.Equal(t, index.Grants, decision.Index.Grants)
	require.Greater(t, decision.Index.Version, index.Version)
}

// Found by the simulation: a Reservation whose finalizer was torn off was made anew for another tenant, while the lock
// of the first was another Reservation's of that tenant, or not in sight.
func TestWhoIsMadeAnewGetsNobodyInBeforeItsLock(t *testing.T) {
	anew := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.ReservationSpec{Tenant: "bar", ReservedNodes: []string{"n1"}}}
	held, releasing := Grant{Reservation: "r", Namespaces: []string{"foo"}}, Grant{Reservation: "r", Phase: Releasing}
	cases := map[string]struct {
		now  Grant
		node Node
		want []string
	}{
		"held, the lock not in sight":       {held, Node{Name: "n1"}, nil},
		"held, the lock another's":          {held, Node{Name: "n1", Tenant: "foo", Holder: "s"}, nil},
		"releasing, the lock not in sight":  {releasing, Node{Name: "n1"}, nil},
		"releasing, the lock another's":     {releasing, Node{Name: "n1", Tenant: "foo", Holder: "s"}, nil},
		"closed, the lock not in sight":     {Grant{Reservation: "r"}, Node{Name: "n1"}, nil},
		"its own lock is on":                {Grant{Reservation: "r"}, Node{Name: "n1", Tenant: "bar", Holder: "r"}, []string{"bar"}},
		"handed over, the lock another's":   {Grant{Reservation: "r", Namespaces: []string{"bar"}}, Node{Name: "n1", Tenant: "foo", Holder: "s"}, []string{"bar"}},
		"claimed again, its own lock is on": {releasing, Node{Name: "n1", Tenant: "bar", Holder: "r"}, []string{"bar"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(Snapshot{Reservations: []v1alpha1.Reservation{anew}, Nodes: []Node{c.node}, Index: Index{Version: 1, Grants: map[string]Grant{"n1": c.now}}})
			require.Equal(t, Grant{Reservation: "r", Namespaces: c.want}, d.Index.Grants["n1"])
		})
	}
}

// Found by the simulation: a process that begins to lead with an old cache knows neither the holder nor its lock.
func TestANewLeaderTakesNoNodeFromAReservationThatItDoesNotKnow(t *testing.T) {
	r := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: v1alpha1.ReservationSpec{Tenant: "new", ReservedNodes: []string{"n1"}}}
	before := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: v1alpha1.ReservationSpec{Tenant: "old", ReservedNodes: []string{"n1"}}}
	s := Snapshot{
		Reservations: []v1alpha1.Reservation{before}, Nodes: []Node{{Name: "n1", Tenant: "old", Holder: "old"}},
		Index: Index{Version: 1, Grants: map[string]Grant{"n1": {Reservation: "new", Namespaces: []string{"new"}}}},
	}
	require.Equal(t, Grant{Reservation: "new", Phase: Releasing}, Decide(s).Index.Grants["n1"])

	server := serving(t, interceptor.Funcs{}, &r)
	all, err := worker(server, server).unseen(t.Context(), s)
	require.NoError(t, err)
	require.Len(t, all, 2)
	s.Reservations = all
	require.Equal(t, s.Index.Grants, Decide(s).Index.Grants)
}
