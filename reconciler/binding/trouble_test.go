package binding

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func TestReconcile_when_the_door_fails(t *testing.T) {
	for name, tc := range map[string]struct {
		err         error
		wantReason  string
		wantMessage string
		wantErr     bool // back-off
	}{
		"for any reason":                {err: errors.New("the server is busy"), wantReason: v1alpha1.ReasonRegistrationFailed, wantMessage: "the server is busy; it is tried again", wantErr: true},
		"while there is no certificate": {err: fmt.Errorf("registering: %w", ErrNotReady), wantReason: v1alpha1.ReasonCertificateNotReady, wantMessage: "certificate is not ready yet"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, reservation(), bindingIn("tenant-foo"), bindingIn("thief"))
			r.err = tc.err
			calls, result, err := r.reconcile()
			require.Equal(t, []string{"door [tenant-foo]", "status tenant-foo", "status thief"}, calls)
			if tc.wantErr {
				require.ErrorIs(t, err, tc.err)
			} else {
				require.NoError(t, err)
				require.Equal(t, certificateRetry, result.RequeueAfter)
			}
			b := r.requireReady("tenant-foo", metav1.ConditionFalse, tc.wantReason, tc.wantMessage)
			require.Equal(t, "tenant-foo", b.Status.Tenant, "it counts all the same")
			require.EqualValues(t, -1, b.Status.ObservedGeneration)
			r.requireReady("thief", metav1.ConditionFalse, v1alpha1.ReasonNamespaceNotAccepted, "")

			calls, _, _ = r.reconcile()
			require.Equal(t, []string{"door [tenant-foo]"}, calls, "the same failure is written once")

			r.err = nil
			_, _, err = r.reconcile()
			require.NoError(t, err)
			b = r.requireReady("tenant-foo", metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "")
			require.Equal(t, b.Generation, b.Status.ObservedGeneration)
		})
	}
}

func conflict(string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "reservationbindings"}, "x", errors.New("changed"))
}

func TestReconcile_when_somebody_was_faster(t *testing.T) {
	t.Run("at the door: nothing is said about it", func(t *testing.T) {
		r := newRig(t, reservation(), bindingIn("tenant-foo"))
		r.err = fmt.Errorf("registering: %w", conflict(""))
		calls, result, err := r.reconcile()
		require.NoError(t, err)
		require.Equal(t, conflictRetry, result.RequeueAfter)
		require.Equal(t, []string{"door [tenant-foo]"}, calls)
	})
	t.Run("at a status: the others are written, and it is looked at again", func(t *testing.T) {
		r := newRig(t, reservation(accepting("a", "b")), bindingIn("a"), bindingIn("b"))
		r.refuse = func(namespace string) error {
			if namespace == "a" {
				return conflict("")
			}
			return nil
		}
		calls, result, err := r.reconcile()
		require.NoError(t, err)
		require.Equal(t, conflictRetry, result.RequeueAfter)
		require.Equal(t, []string{"door [a b]", "status a", "status b"}, calls)
	})
}

func TestReconcile_when_a_status_cannot_be_written(t *testing.T) {
	r := newRig(t, reservation(accepting("a", "b", "c")), bindingIn("a"), bindingIn("b"), bindingIn("c"))
	r.refuse = func(namespace string) error {
		switch namespace {
		case "a":
			return apierrors.NewNotFound(schema.GroupResource{}, "gone meanwhile")
		case "b":
			return apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no right"))
		}
		return nil
	}
	calls, _, err := r.reconcile()
	require.ErrorContains(t, err, "ReservationBinding b/tenant-foo-binding")
	require.NotContains(t, err.Error(), "gone meanwhile")
	require.Equal(t, []string{"door [a b c]", "status a", "status b", "status c"}, calls)
}

func TestReconcile_when_the_operator_stops(t *testing.T) {
	r := newRig(t, reservation(), bindingIn("tenant-foo"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.err = context.Canceled
	_, err := r.Reconcile(ctx, ctrl.Request{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"door [tenant-foo]"}, r.calls, "nothing is written down")
}

func TestReconcile_when_it_cannot_read(t *testing.T) {
	scheme := runtime.NewScheme() // knows neither kind
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	_, err := r.Reconcile(t.Context(), ctrl.Request{})
	require.ErrorContains(t, err, "listing ReservationBindings")
}

func TestSpecChanged(t *testing.T) {
	update := func(change func(*v1alpha1.ReservationBinding)) bool {
		after := bindingIn("tenant-foo")
		change(after)
		return specChanged.Update(event.UpdateEvent{ObjectOld: bindingIn("tenant-foo"), ObjectNew: after})
	}
	require.False(t, update(func(b *v1alpha1.ReservationBinding) { b.Status.Tenant = "x"; b.ResourceVersion = "2" }), "our own write")
	require.False(t, update(func(b *v1alpha1.ReservationBinding) { b.Labels = map[string]string{"a": "b"} }))
	require.True(t, update(func(b *v1alpha1.ReservationBinding) { b.Generation++ }))
	require.True(t, update(func(b *v1alpha1.ReservationBinding) { b.UID = "another" }))
	require.True(t, update(func(b *v1alpha1.ReservationBinding) { now := metav1.Now(); b.DeletionTimestamp = &now }))
	require.True(t, specChanged.Create(event.CreateEvent{Object: bindingIn("tenant-foo")}))
	require.True(t, specChanged.Delete(event.DeleteEvent{Object: bindingIn("tenant-foo")}))
}
