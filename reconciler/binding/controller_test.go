package binding

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// rig is a reconciler against a pretended API server, with its door and its status writes recorded.
type rig struct {
	*Reconciler
	t *testing.T
	// calls are the door's, and "status NAMESPACE" for each write, in order.
	calls []string
	// err is what the door answers; refuse what a status write gets.
	err    error
	refuse func(namespace string) error
}

// Ensure implements Door.
func (r *rig) Ensure(_ context.Context, bound []string) error {
	r.calls = append(r.calls, fmt.Sprint("door ", bound))
	return r.err
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	r := &rig{t: t}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.ReservationBinding{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			r.calls = append(r.calls, sub+" "+o.GetNamespace())
			if r.refuse != nil {
				if err := r.refuse(o.GetNamespace()); err != nil {
					return err
				}
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}}).Build()
	r.Reconciler = &Reconciler{Client: c, Door: r}
	return r
}

// reconcile runs it once and returns what was called meanwhile.
func (r *rig) reconcile() (calls []string, result ctrl.Result, err error) {
	r.t.Helper()
	r.calls = nil
	result, err = r.Reconcile(r.t.Context(), ctrl.Request{})
	return r.calls, result, err
}

func (r *rig) binding(namespace string) *v1alpha1.ReservationBinding {
	r.t.Helper()
	b := &v1alpha1.ReservationBinding{}
	require.NoError(r.t, r.Client.Get(r.t.Context(), client.ObjectKey{Namespace: namespace, Name: "tenant-foo-binding"}, b))
	return b
}

// requireReady requires the Ready condition, and that the others stand with it as kstatus has them.
func (r *rig) requireReady(namespace string, status metav1.ConditionStatus, reason, message string) *v1alpha1.ReservationBinding {
	r.t.Helper()
	b := r.binding(namespace)
	ready := conditions.Get(b, v1alpha1.ConditionReady)
	require.NotNil(r.t, ready)
	require.Equal(r.t, status, ready.Status)
	require.Equal(r.t, reason, ready.Reason)
	require.Contains(r.t, ready.Message, message)
	require.Equal(r.t, b.Generation, ready.ObservedGeneration)
	require.Equal(r.t, status == metav1.ConditionFalse, conditions.IsStalled(b) != conditions.IsReconciling(b))
	return b
}

func TestReconcile_registers_first_and_then_says_so(t *testing.T) {
	r := newRig(t, reservation(accepting("tenant-foo", "alpha-train")),
		bindingIn("tenant-foo"), bindingIn("alpha-train"), bindingIn("thief"), bindingIn("early", naming("missing")))
	calls, result, err := r.reconcile()
	require.NoError(t, err)
	require.Zero(t, result)
	require.Equal(t, []string{"door [alpha-train tenant-foo]", "status alpha-train", "status early", "status tenant-foo", "status thief"}, calls)

	b := r.requireReady("tenant-foo", metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "pods of namespace tenant-foo that match are injected for tenant tenant-foo")
	require.Equal(t, "tenant-foo", b.Status.Tenant)
	require.Equal(t, b.Generation, b.Status.ObservedGeneration)

	b = r.requireReady("thief", metav1.ConditionFalse, v1alpha1.ReasonNamespaceNotAccepted, "does not accept namespace thief")
	require.Empty(t, b.Status.Tenant)
	require.True(t, conditions.IsStalled(b))
	require.Equal(t, b.Generation, b.Status.ObservedGeneration)

	b = r.requireReady("early", metav1.ConditionFalse, v1alpha1.ReasonReservationNotFound, "no Reservation missing")
	require.True(t, conditions.IsReconciling(b), "it may be on its way")
	require.EqualValues(t, -1, b.Status.ObservedGeneration)
}

func TestReconcile_writes_nothing_at_rest(t *testing.T) {
	r := newRig(t, reservation(), bindingIn("tenant-foo"), bindingIn("thief"), bindingIn("early", naming("missing")))
	_, _, err := r.reconcile()
	require.NoError(t, err)
	before := r.binding("tenant-foo").ResourceVersion
	for range 3 {
		calls, result, err := r.reconcile()
		require.NoError(t, err)
		require.Zero(t, result)
		require.Equal(t, []string{"door [tenant-foo]"}, calls)
	}
	require.Equal(t, before, r.binding("tenant-foo").ResourceVersion)
}

func TestReconcile_without_bindings_still_closes_the_door(t *testing.T) {
	calls, _, err := newRig(t).reconcile()
	require.NoError(t, err)
	require.Equal(t, []string{"door []"}, calls)
}

func TestReconcile_when_the_right_is_taken_away_and_given_back(t *testing.T) {
	r := newRig(t, reservation(), bindingIn("tenant-foo"))
	_, _, err := r.reconcile()
	require.NoError(t, err)

	change := func(namespaces ...string) {
		live := &v1alpha1.Reservation{}
		require.NoError(t, r.Client.Get(t.Context(), client.ObjectKey{Name: "tenant-foo-reservation"}, live))
		live.Spec.Namespaces = namespaces
		require.NoError(t, r.Client.Update(t.Context(), live))
	}
	change("other")
	calls, _, err := r.reconcile()
	require.NoError(t, err)
	require.Equal(t, []string{"door []", "status tenant-foo"}, calls)
	b := r.requireReady("tenant-foo", metav1.ConditionFalse, v1alpha1.ReasonNamespaceNotAccepted, "ask the platform team")
	require.Empty(t, b.Status.Tenant)

	change("tenant-foo")
	calls, _, err = r.reconcile()
	require.NoError(t, err)
	require.Equal(t, []string{"door [tenant-foo]", "status tenant-foo"}, calls)
	r.requireReady("tenant-foo", metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "are injected")
}

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
