package apply

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// counting is a client that notes what is really written, and can be made to fail.
type counting struct {
	mu     sync.Mutex
	writes []string
	fail   func(o client.Object) error
}

func (w *counting) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			options := (&client.ApplyOptions{}).ApplyOptions(opts)
			if u, ok := o.(client.Object); ok && len(options.DryRun) == 0 {
				if w.fail != nil && w.fail(u) != nil {
					return w.fail(u)
				}
				w.note("apply " + u.GetObjectKind().GroupVersionKind().Kind + " " + u.GetName())
			}
			return c.Apply(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			w.note("delete " + o.GetObjectKind().GroupVersionKind().Kind + " " + o.GetName())
			return c.Delete(ctx, o, opts...)
		},
	})
}

func (w *counting) note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, line)
}

func TestApplyWritesWhatDiffers(t *testing.T) {
	counter := &counting{}
	a := applier(t)
	a.Client = counter.wrap(admin(t))
	first, second := Commit{"tenants", "main@sha1:1"}, Commit{"tenants", "main@sha1:2"}
	set := tenant(t, "differs")

	p := previewed(t, a, first, set)
	require.Empty(t, p.Findings)
	require.Equal(t, 4, p.Count(Create))
	require.Empty(t, counter.writes, "a dry run writes nothing")
	r := a.Apply(t.Context(), first, p)
	require.Len(t, r.Created, 4)
	require.Equal(t, []string{"apply Namespace differs", "apply ResourceQuota q", "apply Reservation differs", "apply ReservationBinding b"}, counter.writes)
	for _, e := range r.Created {
		live := get(t, a.Live, e)
		require.Equal(t, "tenants", live.GetLabels()[v1alpha1.LabelSource])
		require.Equal(t, first.Revision, live.GetAnnotations()[v1alpha1.AnnotationRevision])
		require.Equal(t, live.GetResourceVersion(), r.States[e].GetResourceVersion())
	}

	// Another commit with the same objects: also a quota that the API server writes differently.
	counter.writes = nil
	r = applied(t, a, second, set)
	require.Empty(t, counter.writes)
	require.Len(t, r.Kept, 4)
	require.Len(t, r.States, 4)

	// A commit that changes one of them.
	require.NoError(t, unstructured.SetNestedStringSlice(set[1].Object, []string{"differs-1"}, "spec", "reservedNodes"))
	r = applied(t, a, second, set)
	require.Equal(t, []string{"apply Reservation differs"}, counter.writes)
	require.Len(t, r.Kept, 3)
	changed := get(t, a.Live, EntryOf(set[1].Unstructured))
	require.Equal(t, second.Revision, changed.GetAnnotations()[v1alpha1.AnnotationRevision])
	nodes, _, _ := unstructured.NestedStringSlice(changed.Object, "spec", "reservedNodes")
	require.Equal(t, []string{"differs-1"}, nodes)
	require.Equal(t, first.Revision, get(t, a.Live, EntryOf(set[0].Unstructured)).GetAnnotations()[v1alpha1.AnnotationRevision])
}

// A pool that names no nodes has all of its nodes again once the commit says nothing of names.
func TestACommitTakesTheEmptyListAway(t *testing.T) {
	a := applier(t)
	commit := Commit{"tenants", "main@sha1:1"}
	pool := func(tail string) []render.Object {
		return objects(t, `{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: whole-pool}, spec: {tenant: x, nodeSelector: {matchLabels: {pool: a}}`+tail+`}}`)
	}
	applied(t, a, commit, pool(", reservedNodes: [n1, n2]"))
	applied(t, a, commit, pool(", reservedNodes: []"))
	p := previewed(t, a, commit, pool(""))
	require.Equal(t, Change, p.Steps[0].Verb)
	_, said, _ := unstructured.NestedStringSlice(p.Steps[0].Then.Object, "spec", "reservedNodes")
	require.False(t, said)
	require.Empty(t, a.Apply(t.Context(), commit, p).Failed)
	_, said, _ = unstructured.NestedStringSlice(get(t, a.Live, p.Steps[0].Entry()).Object, "spec", "reservedNodes")
	require.False(t, said)
	require.Len(t, applied(t, a, commit, pool("")).Kept, 1)
}

// An empty list that somebody wrote by hand, to free a pool in a hurry, stays although no commit has one.
func TestAnEmptyListByHandStays(t *testing.T) {
	a := applier(t)
	commit := Commit{"tenants", "main@sha1:1"}
	set := objects(t, `{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: freed-pool}, spec: {tenant: x, nodeSelector: {matchLabels: {pool: a}}}}`)
	entry := previewed(t, a, commit, set).Steps[0].Entry()
	applied(t, a, commit, set)
	byHand := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"reservedNodes":[]}}`))
	require.NoError(t, admin(t).Patch(t.Context(), get(t, a.Live, entry), byHand, client.FieldOwner("kubectl-edit")))
	require.Len(t, applied(t, a, commit, set).Kept, 1)
	_, there, _ := unstructured.NestedStringSlice(get(t, a.Live, entry).Object, "spec", "reservedNodes")
	require.True(t, there)
}

// A commit that takes the last name away leaves an empty list: without a list, a Reservation with a selector would
// have the whole pool, and one without is refused.
func TestACommitTakesTheLastNodeAway(t *testing.T) {
	counter := &counting{}
	a := applier(t)
	a.Client = counter.wrap(admin(t))
	commit := Commit{"tenants", "main@sha1:1"}
	for name, spec := range map[string]string{
		"emptied-names": `{tenant: x, reservedNodes: [%s]}`,
		"emptied-pool":  `{tenant: x, nodeSelector: {matchLabels: {pool: a}}, reservedNodes: [%s]}`,
	} {
		t.Run(name, func(t *testing.T) {
			names := func(list string) []render.Object {
				return objects(t, `{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: `+name+`}, spec: `+fmt.Sprintf(spec, list)+`}`)
			}
			applied(t, a, commit, names("n1, n2"))
			p := previewed(t, a, commit, names(""))
			require.Empty(t, p.Findings)
			require.Equal(t, Change, p.Steps[0].Verb)
			then, said, err := unstructured.NestedStringSlice(p.Steps[0].Then.Object, "spec", "reservedNodes")
			require.NoError(t, err)
			require.True(t, said)
			require.Empty(t, then)
			live, _, _ := unstructured.NestedStringSlice(get(t, a.Live, p.Steps[0].Entry()).Object, "spec", "reservedNodes")
			require.Len(t, live, 2, "a dry run writes nothing")

			r := a.Apply(t.Context(), commit, p)
			require.Empty(t, r.Failed)
			live, said, _ = unstructured.NestedStringSlice(get(t, a.Live, p.Steps[0].Entry()).Object, "spec", "reservedNodes")
			require.True(t, said)
			require.Empty(t, live)

			counter.writes = nil
			require.Len(t, applied(t, a, commit, names("")).Kept, 1)
			require.Empty(t, counter.writes, "at rest nothing is written")
			require.Len(t, applied(t, a, commit, names("n2")).Changed, 1)

			// What somebody else added stays, as it does beside names of the commit.
			edited := &v1alpha1.Reservation{}
			require.NoError(t, admin(t).Get(t.Context(), client.ObjectKey{Name: name}, edited))
			edited.Spec.ReservedNodes = append(edited.Spec.ReservedNodes, "n3")
			require.NoError(t, admin(t).Update(t.Context(), edited, client.FieldOwner("kubectl-edit")))
			p = previewed(t, a, commit, names(""))
			require.Len(t, p.Findings, 1)
			require.True(t, p.Findings[0].Warning)
			require.Contains(t, p.Findings[0].Message, `the field manager "kubectl-edit" set it, and it stays`)
			require.Empty(t, a.Apply(t.Context(), commit, p).Failed)
			live, _, _ = unstructured.NestedStringSlice(get(t, a.Live, p.Steps[0].Entry()).Object, "spec", "reservedNodes")
			require.Equal(t, []string{"n3"}, live)
		})
	}
}

func TestPreviewRefusals(t *testing.T) {
	a := applier(t)
	const head = `apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: refused}`
	for name, tc := range map[string]struct {
		document string
		want     []string // beginnings
	}{
		"a limit of the schema":  {`{` + head + `, spec: {tenant: x, reservedNodes: [A]}}`, []string{"a.yaml:1: Reservation refused: spec.reservedNodes[0]: Invalid value: \"A\""}},
		"a rule of the CRD":      {`{` + head + `, spec: {tenant: "12", reservedNodes: []}}`, []string{"a.yaml:1: Reservation refused: spec.tenant: Invalid value: \"12\": must not be purely numeric"}},
		"nothing to reserve":     {`{` + head + `, spec: {tenant: x}}`, []string{"a.yaml:1: Reservation refused: spec: Invalid value: at least one of"}},
		"two at once":            {`{` + head + `, spec: {tenant: x, taintEffect: Never, reservedNodes: [A]}}`, []string{"a.yaml:1: Reservation refused: spec.reservedNodes[0]: ", "a.yaml:1: Reservation refused: spec.taintEffect: Unsupported value: \"Never\""}},
		"a node twice":           {`{` + head + `, spec: {tenant: x, reservedNodes: [a, a]}}`, []string{"a.yaml:1: Reservation refused: spec.reservedNodes: duplicate entries"}},
		"a field of no quota":    {`{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: default}, spec: {hards: {cpu: 1}}}`, []string{"a.yaml:1: ResourceQuota default/q: spec.hards: field not declared in schema"}},
		"a list for a map":       {`{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: default}, spec: {hard: [a]}}`, []string{"a.yaml:1: ResourceQuota default/q: spec.hard: expected map"}},
		"no quantity":            {`{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: default}, spec: {hard: {cpu: one}}}`, []string{"a.yaml:1: ResourceQuota default/q: quantities must match"}},
		"no label":               {`{apiVersion: v1, kind: Namespace, metadata: {name: refused, labels: {a: "b c"}}}`, []string{"a.yaml:1: Namespace refused: metadata.labels: Invalid value: \"b c\""}},
		"no namespace":           {`{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: nowhere}}`, []string{"a.yaml:1: LimitRange nowhere/l: metadata.namespace: the namespace nowhere does not exist"}},
		"a binding without gate": {`{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: ReservationBinding, metadata: {name: b, namespace: default}, spec: {reservationName: x}}`, []string{"a.yaml:1: ReservationBinding default/b: spec.podSelector: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := previewed(t, a, Commit{"tenants", "r"}, objects(t, tc.document))
			require.True(t, render.Rejected(p.Findings))
			require.Len(t, p.Findings, len(tc.want), "%v", p.Findings)
			for i, want := range tc.want {
				require.True(t, strings.HasPrefix(p.Findings[i].String(), want), p.Findings[i].String())
			}
		})
	}
}

func TestPreviewOfAnImmutableTenant(t *testing.T) {
	a := applier(t)
	applied(t, a, Commit{"tenants", "1"}, objects(t, fmt.Sprintf(reservationYAML, "immutable")))
	p := previewed(t, a, Commit{"tenants", "2"}, objects(t, strings.Replace(fmt.Sprintf(reservationYAML, "immutable"), "tenant: immutable", "tenant: other", 1)))
	require.Len(t, p.Findings, 1)
	require.Contains(t, p.Findings[0].String(), "Reservation immutable: spec.tenant: Invalid value: \"other\": is immutable")
}

func TestConflictNamesTheOtherManager(t *testing.T) {
	a := applier(t)
	set := objects(t, strings.Replace(fmt.Sprintf(reservationYAML, "conflict"), "tenant:", "taintEffect: NoSchedule, tenant:", 1))
	applied(t, a, Commit{"tenants", "1"}, set)

	edited := &v1alpha1.Reservation{}
	require.NoError(t, a.Live.Get(t.Context(), client.ObjectKey{Name: "conflict"}, edited))
	edited.Spec.TaintEffect = corev1.TaintEffectNoExecute
	edited.Spec.ReservedNodes = append(edited.Spec.ReservedNodes, "conflict-3")
	require.NoError(t, admin(t).Update(t.Context(), edited, client.FieldOwner("kubectl-edit")))

	p := previewed(t, a, Commit{"tenants", "1"}, set)
	require.True(t, render.Rejected(p.Findings))
	require.Contains(t, p.Findings[0].String(), `a.yaml:1: Reservation conflict: spec.taintEffect: is held by another field manager (conflict with "kubectl-edit"`)

	// Once the value is the commit's again, what else that manager added is only worth a warning.
	edited.Spec.TaintEffect = corev1.TaintEffectNoSchedule
	require.NoError(t, admin(t).Update(t.Context(), edited, client.FieldOwner("kubectl-edit")))
	p = previewed(t, a, Commit{"tenants", "1"}, set)
	require.False(t, render.Rejected(p.Findings))
	require.Len(t, p.Findings, 1)
	require.Contains(t, p.Findings[0].String(), `spec.reservedNodes[="conflict-3"]: is not in the commit: the field manager "kubectl-edit" set it`)
}

func TestDriftComesBack(t *testing.T) {
	a := applier(t)
	set := tenant(t, "drift")
	applied(t, a, Commit{"tenants", "1"}, set)
	edited := &v1alpha1.Reservation{}
	require.NoError(t, a.Live.Get(t.Context(), client.ObjectKey{Name: "drift"}, edited))
	edited.Spec.ReservedNodes = []string{"drift-1"} // taken away by hand
	require.NoError(t, admin(t).Update(t.Context(), edited, client.FieldOwner("kubectl-edit")))

	r := applied(t, a, Commit{"tenants", "1"}, set)
	require.Len(t, r.Changed, 1)
	require.NoError(t, a.Live.Get(t.Context(), client.ObjectKey{Name: "drift"}, edited))
	require.Equal(t, []string{"drift-1", "drift-2"}, edited.Spec.ReservedNodes)
}

func TestAdoption(t *testing.T) {
	counter := &counting{}
	a := applier(t)
	a.Client = counter.wrap(admin(t))
	set := objects(t, fmt.Sprintf(reservationYAML, "adopted"))
	byHand := set[0].DeepCopy()
	require.NoError(t, admin(t).Create(t.Context(), byHand, client.FieldOwner("kubectl-create")))
	r := applied(t, a, Commit{"tenants", "1"}, set)
	require.Len(t, r.Changed, 1)
	live := get(t, a.Live, r.Changed[0])
	require.Equal(t, byHand.GetUID(), live.GetUID())
	require.Equal(t, "tenants", live.GetLabels()[v1alpha1.LabelSource])

	counter.writes = nil
	require.Len(t, applied(t, a, Commit{"tenants", "2"}, set).Kept, 1)
	require.Empty(t, counter.writes)
}

func TestReconcileDisabledIsLeftAlone(t *testing.T) {
	a := applier(t)
	set := tenant(t, "disabled")
	applied(t, a, Commit{"tenants", "1"}, set)
	e := EntryOf(set[1].Unstructured)
	live := get(t, a.Live, e)
	annotations := live.GetAnnotations()
	annotations[v1alpha1.AnnotationReconcile] = "disabled"
	live.SetAnnotations(annotations)
	require.NoError(t, unstructured.SetNestedField(live.Object, "NoExecute", "spec", "taintEffect"))
	require.NoError(t, admin(t).Update(t.Context(), live))

	p := previewed(t, a, Commit{"tenants", "2"}, set)
	require.Empty(t, p.Findings)
	r := a.Apply(t.Context(), Commit{"tenants", "2"}, p)
	require.Equal(t, []Entry{e}, r.Skipped)
	require.Contains(t, p.Steps[2].Explain(), "Reservation disabled is left as it is")
	pruned := a.Prune(t.Context(), "tenants", []Entry{e})
	require.Len(t, pruned.Kept, 1)
	require.Equal(t, []Entry{e}, pruned.Remaining())
	get(t, a.Live, e)
}

func TestOneFailureHoldsUpNoOtherObject(t *testing.T) {
	counter := &counting{fail: func(o client.Object) error {
		if o.GetName() == "failure-1" {
			return apierrors.NewServiceUnavailable("not now")
		}
		return nil
	}}
	a := applier(t)
	a.Client = counter.wrap(admin(t))
	set := objects(t, fmt.Sprintf(reservationYAML, "failure-1"), fmt.Sprintf(reservationYAML, "failure-2"))
	r := applied(t, a, Commit{"tenants", "1"}, set)
	require.Len(t, r.Created, 1)
	require.Len(t, r.Failed, 1)
	require.Contains(t, r.Failed[0].Finding.String(), "a.yaml:1: Reservation failure-1: ")
	require.Contains(t, r.Failed[0].Finding.String(), "not now")
	require.NotContains(t, r.States, EntryOf(set[0].Unstructured))

	counter.fail = nil
	r = applied(t, a, Commit{"tenants", "1"}, set)
	require.Len(t, r.Created, 1)
	require.Len(t, r.Kept, 1)
}

// An object whose namespace comes with the commit is tried in the operator's namespace, whatever is there.
func TestTrialMeetsNoNamesake(t *testing.T) {
	a := applier(t)
	namesake := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}
	require.NoError(t, admin(t).Create(t.Context(), namesake))
	p := previewed(t, a, Commit{"tenants", "1"}, tenant(t, "trial"))
	require.Empty(t, p.Findings)
	for _, s := range p.Steps {
		require.Equal(t, Create, s.Verb)
		require.Equal(t, s.Object.GetName(), s.Then.GetName())
		require.Equal(t, s.Object.GetNamespace(), s.Then.GetNamespace())
	}
	bad := tenant(t, "trial")
	require.NoError(t, unstructured.SetNestedField(bad[2].Object, "x", "spec", "hards"))
	p = previewed(t, a, Commit{"tenants", "1"}, bad)
	require.Equal(t, "c.yaml:1: ResourceQuota trial/q: spec.hards: field not declared in schema", p.Findings[0].String())
}

func TestObjectsInATerminatingNamespaceAreAwaited(t *testing.T) {
	a := applier(t)
	set := tenant(t, "terminating")
	// Without a controller manager a deleted namespace stays.
	ns := get(t, a.Live, applied(t, a, Commit{"tenants", "1"}, set[3:]).Created[0])
	require.NoError(t, admin(t).Delete(t.Context(), ns))
	r := applied(t, a, Commit{"tenants", "1"}, set)
	require.Len(t, r.Awaited, 3)
	require.Len(t, r.Created, 1, "the Reservation is in no namespace")
}

func TestForbiddenNamesTheRight(t *testing.T) {
	config := rest.CopyConfig(plane.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody", Groups: []string{"system:authenticated"}}
	c, err := newClient(config)
	require.NoError(t, err)
	a := applier(t)
	a.Client = c
	set := tenant(t, "forbidden")
	live, err := a.Gather(t.Context(), set)
	require.NoError(t, err)
	_, err = a.Preview(t.Context(), Commit{"tenants", "1"}, set, live)
	var blocked *Blocked
	require.ErrorAs(t, err, &blocked)
	require.Equal(t, v1alpha1.ReasonForbidden, blocked.Reason)
	require.Equal(t, "the operator may not patch Namespace forbidden: give it the right. Check with: kubectl auth can-i patch namespaces "+
		"--as=system:serviceaccount:reservation-operator:reservation-operator", blocked.Message)

	a.Live = c
	_, err = a.Gather(t.Context(), set[:1])
	require.ErrorAs(t, err, &blocked)
	require.Contains(t, blocked.Message, "kubectl auth can-i get reservationbindings.scheduling.coreweave.cloud -n forbidden --as=")
}

func TestMissingCRDIsNamed(t *testing.T) {
	a := applier(t)
	set := objects(t, strings.Replace(fmt.Sprintf(reservationYAML, "nocrd"), "v1alpha1", "v9", 1))
	var blocked *Blocked
	_, err := a.Gather(t.Context(), set)
	require.ErrorAs(t, err, &blocked)
	require.Equal(t, v1alpha1.ReasonCRDMissing, blocked.Reason)
	require.Contains(t, blocked.Message, "Reservation (scheduling.coreweave.cloud/v9)")
	require.Empty(t, a.Prune(t.Context(), "tenants", EntriesOf(set)).Remaining(), "gone with its kind")
}

func TestPrune(t *testing.T) {
	counter := &counting{}
	busy := true
	a := applier(t)
	a.Client = counter.wrap(admin(t))
	a.Running = func(_ context.Context, namespace string) (bool, error) { return namespace == "pruned" && busy, nil }
	set := tenant(t, "pruned")
	inventory := EntriesOf(set)
	applied(t, a, Commit{"tenants", "1"}, set)
	counter.writes = nil

	require.Len(t, a.Prune(t.Context(), "other", inventory).Left, 4, "another source's objects stay")
	require.Empty(t, counter.writes)

	pruned := a.Prune(t.Context(), "tenants", inventory)
	require.Equal(t, []string{"delete ReservationBinding b", "delete Reservation pruned", "delete ResourceQuota q"}, counter.writes)
	require.Len(t, pruned.Deleted, 3)
	require.Equal(t, []Kept{{Entry: Entry{Version: "v1", Kind: "Namespace", Name: "pruned"}, Why: "is kept until the pods in it have ended"}}, pruned.Kept)

	busy = false
	pruned = a.Prune(t.Context(), "tenants", pruned.Remaining())
	require.Empty(t, pruned.Remaining())
	require.Equal(t, "delete Namespace pruned", counter.writes[3])
	gone := a.Prune(t.Context(), "tenants", inventory[1:])
	require.Empty(t, gone.Deleted, "what is gone is not mentioned")
	require.Empty(t, gone.Remaining())
}

func TestPruneNeverDeletesASuccessor(t *testing.T) {
	a := applier(t)
	set := objects(t, fmt.Sprintf(reservationYAML, "successor"))
	applied(t, a, Commit{"tenants", "1"}, set)
	c := admin(t)
	stale := get(t, c, EntryOf(set[0].Unstructured))
	require.NoError(t, c.Delete(t.Context(), stale.DeepCopy()))
	applied(t, a, Commit{"tenants", "2"}, set)
	v := a.delete(t.Context(), EntryOf(set[0].Unstructured), stale)
	require.ErrorContains(t, v.err, "made again meanwhile")
	get(t, c, EntryOf(set[0].Unstructured))
}

func TestThousandReservations(t *testing.T) {
	a := applier(t)
	var set []render.Object
	for i := range 1000 {
		set = append(set, objects(t, fmt.Sprintf(reservationYAML, fmt.Sprintf("many-%03d", i)))...)
	}
	require.Len(t, applied(t, a, Commit{"tenants", "1"}, set).Created, 1000)
	require.Len(t, applied(t, a, Commit{"tenants", "2"}, set).Kept, 1000)
	require.Less(t, Bytes(EntriesOf(set)), MaxInventoryBytes)
	require.NoError(t, admin(t).DeleteAllOf(t.Context(), &v1alpha1.Reservation{}, client.MatchingLabels{v1alpha1.LabelSource: "tenants"}))
}

func TestPreparedLeavesTheObject(t *testing.T) {
	o := objects(t, fmt.Sprintf(namespaceYAML, "n"))[0]
	o.SetLabels(map[string]string{"team": "a"})
	before := o.DeepCopy()
	got := prepared(o.Unstructured, Commit{"tenants", "main@sha1:1"})
	require.Equal(t, before, o.Unstructured)
	require.Equal(t, map[string]string{"team": "a", v1alpha1.LabelSource: "tenants"}, got.GetLabels())
	require.Equal(t, metav1.Object(got).GetAnnotations(), map[string]string{v1alpha1.AnnotationRevision: "main@sha1:1"})
}
