package report

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func TestNodeEvents(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-04"}}
	cases := map[string]string{
		v1alpha1.ReasonReleaseStarted:  "Normal ReleaseStarted Node gpu-04 is being released: it is cordoned",
		v1alpha1.ReasonReleaseAborted:  "Normal ReleaseAborted Node gpu-04 was claimed again",
		v1alpha1.ReasonNodeReleased:    "Normal NodeReleased Node gpu-04 was released",
		v1alpha1.ReasonReleaseBlocked:  "Warning ReleaseBlocked Node gpu-04 is being released, but a pod does not go",
		v1alpha1.ReasonBudgetConflict:  "Warning BudgetConflict Node gpu-04 is being released, but a pod has two disruption budgets",
		v1alpha1.ReasonNodeUnreachable: "Warning NodeUnreachable Node gpu-04 is being released, but does not answer",
	}
	bindings := []v1alpha1.ReservationBinding{
		{Spec: v1alpha1.ReservationBindingSpec{ReservationName: "foo"}}, {Spec: v1alpha1.ReservationBindingSpec{ReservationName: "another"}},
	}
	foo := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "foo"}}
	for reason, want := range cases {
		t.Run(reason, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			for _, e := range NodeEvents(reason, node, "not said", foo, bindings) {
				e.Emit(recorder)
			}
			require.Len(t, recorder.Events, 3, "one on the node, one on the Reservation, one on its binding")
			for range 3 {
				said := <-recorder.Events
				require.True(t, strings.HasPrefix(said, want), said)
				require.NotContains(t, said, "%")
			}
			for _, e := range NodeEvents(reason, node, "", nil, bindings) {
				e.Emit(recorder)
			}
			require.Len(t, recorder.Events, 1, "a Reservation that is gone gets none")
		})
	}
}

func TestALockThatWasRemovedIsThePlatformsBusiness(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	foo := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "foo"}}
	bindings := []v1alpha1.ReservationBinding{{Spec: v1alpha1.ReservationBindingSpec{ReservationName: "foo"}}}
	for _, e := range NodeEvents(v1alpha1.ReasonLockRemoved, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-04"}}, " (x wrote it)", foo, bindings) {
		e.Emit(recorder)
	}
	require.Len(t, recorder.Events, 2)
	require.Equal(t, "Warning LockRemoved Node gpu-04 lost its label or taint (x wrote it); the operator put it back", <-recorder.Events)
}

func TestATenantWithManyBindingsIsToldOnTen(t *testing.T) {
	bindings := make([]v1alpha1.ReservationBinding, 50)
	for i := range bindings {
		bindings[i].Spec.ReservationName = "foo"
	}
	foo := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "foo"}}
	require.Len(t, NodeEvents(v1alpha1.ReasonNodeReleased, &corev1.Node{}, "", foo, bindings), 12)
}

func TestNodePatchForbiddenSaysHowToCheck(t *testing.T) {
	said := NodePatchForbidden("gpu-04", errors.New("no"))
	require.Contains(t, said, "node gpu-04 cannot be changed: no")
	require.Contains(t, said, "kubectl auth can-i patch nodes --as=system:serviceaccount:reservation-operator:reservation-operator")
}
