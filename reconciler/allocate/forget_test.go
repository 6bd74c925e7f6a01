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
	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

// worker returns a Reconciler over a server and what it has cached.
func worker(server, cached client.Client) *Reconciler {
	return &Reconciler{
		Client: cached, Live: server, Namespace: v1alpha1.OperatorNamespace, Ledger: &report.Ledger{}, View: &View{},
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
func TestAHeldNodeThatIsThereAfterAllIsNotForgotten(t *testing.T) {
	index := Index{Version: 7, Grants: map[string]Grant{"n1": {Reservation: "foo", Namespaces: []string{"foo"}}, "n2": {Reservation: "foo", Namespaces: []string{"foo"}}}}
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OperatorNamespace, Name: v1alpha1.IndexName}, Data: index.Data()}
	server := serving(t, interceptor.Funcs{}, stored, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	r := worker(server, server)
	r.View.Publish(Decision{Index: index}, true)
	decided := Index{Grants: map[string]Grant{}}
	require.NoError(t, r.keepLocked(t.Context(), index, decided))
	require.Equal(t, map[string]Grant{"n1": {Reservation: "foo", Phase: Releasing}}, decided.Grants)
	_, granted, _, enforced := r.View.Grant("n2")
	require.True(t, granted)
	require.False(t, enforced, "nobody locks a node while it is being forgotten")
}

func TestAWithheldNodeIsToldOfTheNextPublication(t *testing.T) {
	v, l := &View{}, &listener{}
	l.listen(v)
	d := Decision{Index: Index{Version: 1, Grants: map[string]Grant{"n1": {Reservation: "foo"}, "n2": {Reservation: "foo"}}}}
	v.Publish(d, true)
	l.take()
	v.Withhold([]string{"n1"})
	v.Withhold([]string{"n2"})
	_, _, _, enforced := v.Grant("n1")
	require.False(t, enforced)
	v.Publish(d, true)
	nodes, _ := l.take()
	require.Equal(t, []string{"n1", "n2"}, nodes)
	_, _, _, enforced = v.Grant("n1")
	require.True(t, enforced)
}
