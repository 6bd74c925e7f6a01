package binding

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// rig is a reconciler against a pretended API server, with its door and its status writes recorded.
type rig struct {
	*Reconciler
	t *testing.T
	// unknown is true before the index is enforced; kept are the namespaces that keep-out still has.
	unknown bool
	kept    []string
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

// Bound implements Index: all that the tests bind, but those kept.
func (r *rig) Bound() ([]string, bool) {
	if r.unknown {
		return nil, false
	}
	all := []string{"a", "alpha-train", "b", "c", "tenant-foo"}
	return slices.DeleteFunc(all, func(n string) bool { return slices.Contains(r.kept, n) }), true
}

// WatchBound implements Index.
func (r *rig) WatchBound(func()) {}

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
	r.Reconciler = &Reconciler{Client: c, Index: r, Door: r}
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

func TestReconcile_registers_no_namespace_that_keep_out_still_has(t *testing.T) {
	r := newRig(t, reservation(accepting("tenant-foo", "alpha-train")), bindingIn("tenant-foo"), bindingIn("alpha-train"))
	r.kept = []string{"alpha-train"}
	calls, result, err := r.reconcile()
	require.NoError(t, err)
	require.Zero(t, result, "the index brings it back")
	require.Equal(t, []string{"door [tenant-foo]", "status alpha-train", "status tenant-foo"}, calls)
	r.requireReady("tenant-foo", metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "")
	r.requireReady("alpha-train", metav1.ConditionFalse, v1alpha1.ReasonProgressing, "once the API server leaves")

	r.kept = nil
	calls, _, err = r.reconcile()
	require.NoError(t, err)
	require.Equal(t, []string{"door [alpha-train tenant-foo]", "status alpha-train"}, calls)
	r.requireReady("alpha-train", metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "")
}

func TestReconcile_leaves_what_is_registered_until_the_index_is_enforced(t *testing.T) {
	r := newRig(t, reservation(), bindingIn("tenant-foo"), bindingIn("thief"))
	r.unknown = true
	calls, result, err := r.reconcile()
	require.NoError(t, err)
	require.Zero(t, result)
	require.Equal(t, []string{"status thief"}, calls, "what is wrong is said at once")
	r.requireReady("thief", metav1.ConditionFalse, v1alpha1.ReasonNamespaceNotAccepted, "")

	r.unknown = false
	calls, _, err = r.reconcile()
	require.NoError(t, err)
	require.Equal(t, []string{"door [tenant-foo]", "status tenant-foo"}, calls)
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
