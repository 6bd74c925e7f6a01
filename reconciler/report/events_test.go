package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

func TestFenceAdviceNamesTheCause(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	ended := func(last error) error { // as fence.Probe.Await ends
		return fmt.Errorf("waiting until index 7 is enforced: %w: %w", context.DeadlineExceeded, last)
	}
	roles, policies := "kubectl apply -k config/rbac", "kubectl get validatingadmissionpolicies"
	for name, c := range map[string]struct {
		err   error
		want  []string
		never string
	}{
		"the role is gone": {
			ended(apierrors.NewForbidden(pods, "probe", errors.New("User x cannot create resource"))),
			[]string{"pods \"probe\" is forbidden: User x cannot create resource", "namespace reservation-fence-probe", roles}, policies},
		"the namespace is gone": {
			ended(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "reservation-fence-probe")),
			[]string{"namespaces \"reservation-fence-probe\" not found", roles}, policies},
		"an old index is enforced": {ended(errors.New("index 6 is enforced still")), []string{policies, "restart kube-apiserver"}, roles},
		"a policy is gone":         {ended(errors.New("the fence does not stand")), []string{policies}, roles},
	} {
		t.Run(name, func(t *testing.T) {
			said := FenceAdvice(c.err)
			for _, want := range c.want {
				require.Contains(t, said, want)
			}
			require.NotContains(t, said, c.never)
			require.NotContains(t, said, "index 7", "the same words at each probe, or the condition is written each time")
		})
	}
}
