package apply

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// Whoever wrote an object by hand before it came under Git does not keep alive what a later commit removes.
func TestWhatACommitSaysIsGitsAlone(t *testing.T) {
	set := func(names string) []render.Object {
		return objects(t, strings.Replace(fmt.Sprintf(reservationYAML, "owned"), "[owned-1, owned-2]", names, 1))
	}
	a := applier(t)
	require.NoError(t, admin(t).Create(t.Context(), set("[owned-1, owned-2, owned-3]")[0].DeepCopy(), client.FieldOwner("kubectl-client-side-apply")))

	p := previewed(t, a, Commit{"tenants", "1"}, set("[owned-1, owned-2]"))
	require.Len(t, p.Findings, 1)
	require.Contains(t, p.Findings[0].String(), `spec.reservedNodes[="owned-3"]: is not in the commit: the field manager "kubectl-client-side-apply" set it`)
	r := a.Apply(t.Context(), Commit{"tenants", "1"}, p)
	require.Empty(t, r.Failed)
	names := func() []string {
		live := &v1alpha1.Reservation{}
		require.NoError(t, a.Live.Get(t.Context(), client.ObjectKey{Name: "owned"}, live))
		return live.Spec.ReservedNodes
	}
	require.ElementsMatch(t, []string{"owned-1", "owned-2", "owned-3"}, names(), "what the commit does not say is not taken from anybody")

	require.Empty(t, applied(t, a, Commit{"tenants", "2"}, set("[owned-1]")).Failed)
	require.ElementsMatch(t, []string{"owned-1", "owned-3"}, names())

	// Nor does the list itself stay when a commit goes over to a pool.
	pool := objects(t, `{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: pooled}, spec: {tenant: pooled, nodeSelector: {matchLabels: {pool: a}}}}`)
	named := objects(t, strings.Replace(fmt.Sprintf(reservationYAML, "pooled"), "spec: {", "spec: {nodeSelector: {matchLabels: {pool: a}}, ", 1))
	require.NoError(t, admin(t).Create(t.Context(), objects(t, fmt.Sprintf(reservationYAML, "pooled"))[0].DeepCopy(), client.FieldOwner("kubectl-client-side-apply")))
	require.Empty(t, applied(t, a, Commit{"tenants", "1"}, named).Failed)
	require.Len(t, applied(t, a, Commit{"tenants", "2"}, pool).Changed, 1)
	pooled := &v1alpha1.Reservation{}
	require.NoError(t, a.Live.Get(t.Context(), client.ObjectKey{Name: "pooled"}, pooled))
	require.Nil(t, pooled.Spec.ReservedNodes)
	require.Empty(t, previewed(t, a, Commit{"tenants", "2"}, pool).Findings)

	// Nor does who added a node by hand before a commit did.
	edited := &v1alpha1.Reservation{}
	require.NoError(t, a.Live.Get(t.Context(), client.ObjectKey{Name: "owned"}, edited))
	edited.Spec.ReservedNodes = append(edited.Spec.ReservedNodes, "owned-2")
	require.NoError(t, admin(t).Update(t.Context(), edited, client.FieldOwner("kubectl-edit")))
	require.Len(t, applied(t, a, Commit{"tenants", "3"}, set("[owned-1, owned-2]")).Changed, 1)
	require.Len(t, applied(t, a, Commit{"tenants", "4"}, set("[owned-1]")).Changed, 1)
	require.ElementsMatch(t, []string{"owned-1", "owned-3"}, names())

	// Another applier says again and again what it holds.
	other := set("[owned-1, owned-4]")[0].DeepCopy()
	require.NoError(t, admin(t).Apply(t.Context(), client.ApplyConfigurationFromUnstructured(other), client.FieldOwner("flux")))
	require.Len(t, applied(t, a, Commit{"tenants", "5"}, set("[owned-1, owned-4]")).Changed, 1)
	require.Len(t, applied(t, a, Commit{"tenants", "6"}, set("[owned-1]")).Changed, 1)
	require.ElementsMatch(t, []string{"owned-1", "owned-3", "owned-4"}, names())
	require.Len(t, applied(t, a, Commit{"tenants", "7"}, set("[owned-1]")).Kept, 1)
}

// An operator that stops between the write and taking the fields over leaves nothing behind for ever, nor does somebody
// who writes the object at the same time.
func TestTakingOverIsMadeUpFor(t *testing.T) {
	set := func(names string) []render.Object {
		o := objects(t, strings.Replace(fmt.Sprintf(reservationYAML, "late"), "[late-1, late-2]", names, 1))
		require.NoError(t, unstructured.SetNestedField(o[0].Object, "NoSchedule", "spec", "taintEffect"))
		return o
	}
	a := applier(t)
	require.NoError(t, admin(t).Create(t.Context(), set("[late-1, late-2]")[0].DeepCopy(), client.FieldOwner("kubectl-client-side-apply")))

	whole := a.Client
	a.Client = interceptor.NewClient(admin(t), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return apierrors.NewServiceUnavailable("killed")
		},
	})
	require.Len(t, applied(t, a, Commit{"tenants", "1"}, set("[late-1, late-2]")).Failed, 1)

	races := 2
	a.Client = interceptor.NewClient(admin(t), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if races--; races >= 0 {
				other := &v1alpha1.Reservation{}
				require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(o), other))
				metav1.SetMetaDataAnnotation(&other.ObjectMeta, "example.com/races", fmt.Sprint(races))
				require.NoError(t, c.Update(ctx, other))
			}
			return c.Patch(ctx, o, patch, opts...)
		},
	})
	left := get(t, a.Live, EntryOf(set("[]")[0].Unstructured))
	require.NoError(t, a.Finish(t.Context(), left))
	require.Negative(t, races)
	next := set("[late-1]")
	require.NoError(t, unstructured.SetNestedField(next[0].Object, "NoExecute", "spec", "taintEffect"))
	p := previewed(t, a, Commit{"tenants", "2"}, next)
	require.Empty(t, p.Findings)
	then, _, _ := unstructured.NestedStringSlice(p.Steps[0].Then.Object, "spec", "reservedNodes")
	require.Equal(t, []string{"late-1"}, then, "what will be released is known before")
	r := a.Apply(t.Context(), Commit{"tenants", "2"}, p)
	require.Empty(t, r.Failed)
	live := &v1alpha1.Reservation{}
	require.NoError(t, a.Live.Get(t.Context(), client.ObjectKey{Name: "late"}, live))
	require.Equal(t, []string{"late-1"}, live.Spec.ReservedNodes)

	a.Client = whole
	require.Len(t, applied(t, a, Commit{"tenants", "2"}, next).Kept, 1)
}

func TestSaidNodes(t *testing.T) {
	a := applier(t)
	e := EntryOf(objects(t, fmt.Sprintf(reservationYAML, "said"))[0].Unstructured)
	applied(t, a, Commit{"tenants", "1"}, objects(t, fmt.Sprintf(reservationYAML, "said")))
	edited := &v1alpha1.Reservation{}
	require.NoError(t, a.Live.Get(t.Context(), client.ObjectKey{Name: "said"}, edited))
	edited.Spec.ReservedNodes = []string{"said-2", "said-3"}
	require.NoError(t, admin(t).Update(t.Context(), edited, client.FieldOwner("kubectl-edit")))
	require.Equal(t, []string{"said-2"}, SaidNodes(get(t, a.Live, e)), "neither what somebody put in nor what somebody took out")
}
