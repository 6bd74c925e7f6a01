package fence_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/webhook/fence"
)

// bind has these namespaces taken as those with accepted bindings, until the test ends, and waits until it is in force.
func bind(t *testing.T, namespaces ...string) {
	t.Helper()
	write := func(bound ...string) {
		writeIndex(t, func(version int64) map[string]string {
			return allocate.Index{Version: version, Bound: bound}.Data()
		})
	}
	write(namespaces...)
	awaitKeepOut(t, namespaces[0], false)
	t.Cleanup(func() {
		write()
		awaitKeepOut(t, namespaces[0], true)
	})
}

// awaitKeepOut waits until a pod that tolerates everything is kept out of reserved nodes in this namespace, or is not.
// A few answers in a row: mutation and check come into force one after the other.
func awaitKeepOut(t *testing.T, namespace string, want bool) {
	t.Helper()
	ctx := after(t)
	same := 0
	require.Eventually(t, func() bool {
		p := pod(namespace, tolerating(wildcard))
		err := cluster(t).Create(ctx, p, client.DryRunAll)
		if err != nil || (len(termsOf(p)) == 1) != want {
			same = 0
			return false
		}
		same++
		return same > 5
	}, time.Minute, 50*time.Millisecond)
}

// writes is a client that counts the requests that change something.
func writes(t *testing.T) (client.Client, *atomic.Int64) {
	var count atomic.Int64
	return interceptor.NewClient(cluster(t), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			count.Add(1)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			count.Add(1)
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			count.Add(1)
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			count.Add(1)
			return c.Delete(ctx, o, opts...)
		},
	}), &count
}

func TestEnsureAgainWritesNothing(t *testing.T) {
	c, count := writes(t)
	installer := &fence.Installer{Client: c, Settings: settings}
	require.NoError(t, installer.Ensure(t.Context()))
	require.Zero(t, count.Load(), "an installed fence")
}

func TestDriftIsCorrectedInPlace(t *testing.T) {
	tests := map[string]struct {
		object client.Object
		change func(client.Object)
	}{
		"an expression": {&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: fence.PodsName}}, func(o client.Object) {
			o.(*admissionregistrationv1.ValidatingAdmissionPolicy).Spec.Validations[1].Expression = "true"
		}},
		"one more match condition, which server-side apply would leave": {&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: fence.BindingsName}}, func(o client.Object) {
			policy := o.(*admissionregistrationv1.ValidatingAdmissionPolicy)
			policy.Spec.MatchConditions = append(policy.Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: "never", Expression: "false"})
		}},
		"one more exempt namespace": {&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: fence.PodsName}}, func(o client.Object) {
			selector := o.(*admissionregistrationv1.ValidatingAdmissionPolicy).Spec.MatchConstraints.NamespaceSelector
			selector.MatchExpressions[0].Values = append(selector.MatchExpressions[0].Values, "zzz")
		}},
		"an excluded resource": {&admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: fence.KeepOutName}}, func(o client.Object) {
			constraints := o.(*admissionregistrationv1.MutatingAdmissionPolicy).Spec.MatchConstraints
			constraints.ExcludeResourceRules = constraints.ResourceRules
		}},
		"a warning instead of a refusal": {&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: fence.BindingsName}}, func(o client.Object) {
			o.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
		}},
		"a label": {&admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: fence.KeepOutName}}, func(o client.Object) {
			o.SetLabels(nil)
		}},
	}
	c, count := writes(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			key := client.ObjectKeyFromObject(test.object)
			var before client.Object
			require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
				require.NoError(t, c.Get(t.Context(), key, test.object))
				before = test.object.DeepCopyObject().(client.Object)
				test.change(test.object)
				test.object.SetAnnotations(map[string]string{"example.com/note": name})
				return c.Update(t.Context(), test.object)
			}))

			count.Store(0)
			require.NoError(t, (&fence.Installer{Client: c, Settings: settings}).Ensure(t.Context()))
			require.Positive(t, count.Load()) // more than one where the status was written meanwhile
			require.NoError(t, c.Get(t.Context(), key, test.object))
			require.Equal(t, before.GetUID(), test.object.GetUID(), "in place")
			require.Equal(t, before.GetLabels(), test.object.GetLabels())
			require.Equal(t, name, test.object.GetAnnotations()["example.com/note"], "what others annotate stays")
			require.Empty(t, cmp.Diff(spec(before), spec(test.object)))
		})
	}
	require.NoError(t, fence.Probe{Client: c}.Await(t.Context(), 1))
}

func spec(o client.Object) any {
	switch o := o.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return o.Spec
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return o.Spec
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return o.Spec
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return o.Spec
	}
	return nil
}

func TestNoExpressionHasATypeWarning(t *testing.T) {
	c := cluster(t)
	for _, object := range fence.Policies(settings) {
		policy, ok := object.(*admissionregistrationv1.ValidatingAdmissionPolicy)
		if !ok {
			continue
		}
		eventually(t, func(ct *assert.CollectT) {
			require.NoError(ct, c.Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
			require.Equal(ct, policy.Generation, policy.Status.ObservedGeneration)
			require.NotNil(ct, policy.Status.TypeChecking)
		})
		require.Empty(t, policy.Status.TypeChecking.ExpressionWarnings, policy.Name)
	}
}

func TestMutatingPoliciesAreFoundToBeServed(t *testing.T) {
	cluster(t)
	served, err := fence.KeepOutServed(live.typed.Discovery())
	require.NoError(t, err)
	require.True(t, served)
}

// Where nothing mutates pods, they are refused with the line to add.
func TestWithoutMutationThePodIsRefused(t *testing.T) {
	c := cluster(t)
	ordinary := namespace(t)
	awaitKeepOut(t, ordinary, true)
	// The policy is not deleted: the API server may then stop to watch ConfigMaps, and the fences would be left with the
	// index of that moment (see keepOut).
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: fence.KeepOutName}}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(binding), binding))
	binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{ObjectSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"no": "pod"},
	}}
	require.NoError(t, c.Update(t.Context(), binding))
	t.Cleanup(func() {
		assert.NoError(t, (&fence.Installer{Client: c, Settings: settings}).Ensure(after(t)))
		awaitKeepOut(t, ordinary, true)
	})
	without := settings
	without.KeepOut = false
	require.NoError(t, (&fence.Installer{Client: c, Settings: without}).Ensure(t.Context()))
	eventually(t, func(ct *assert.CollectT) {
		assert.Error(ct, c.Create(t.Context(), pod(ordinary, tolerating(wildcard)), client.DryRunAll))
	})
	tests := map[string]struct {
		change  func(*corev1.PodSpec)
		refused bool
	}{
		"no affinity":          {func(*corev1.PodSpec) {}, true},
		"in one of two terms":  {required(term(keptOut), term(zoneA)), true},
		"in every term":        {required(term(zoneB, keptOut), term(zoneA, keptOut)), false},
		"beside an empty term": {required(term(), term(zoneA, keptOut)), false},
		"with a node":          {onNode("free"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), pod(ordinary, tolerating(wildcard), test.change), client.DryRunAll)
			if test.refused {
				requireRefused(t, err, fence.KeepOutCheckName,
					"add {key: reserved.tenant, operator: DoesNotExist} to the matchExpressions of every term in spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
			} else {
				require.NoError(t, err)
			}
		})
	}
}
