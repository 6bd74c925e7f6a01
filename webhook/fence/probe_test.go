package fence_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/webhook/fence"
)

func TestProbeSeesEachNewIndex(t *testing.T) {
	probe := fence.Probe{Client: cluster(t)}
	for range 5 {
		version := grant(t, nil) // waits by Await
		got, err := probe.Version(t.Context())
		require.NoError(t, err)
		require.Equal(t, version, got)
	}
}

func TestAwaitEndsWithItsContextAndSaysWhatItSaw(t *testing.T) {
	probe := fence.Probe{Client: cluster(t)}
	version := grant(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := probe.Await(ctx, version+1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAwaitAsksAtGrowingSteps(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	asked := make(chan struct{}, 100)
	probe := fence.Probe{Clock: clock, Client: refusing{asked: asked}}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- probe.Await(ctx, 7) }()
	for _, pause := range []time.Duration{5, 10, 20, 40, 80, 100, 100} {
		<-asked
		require.Eventually(t, clock.HasWaiters, time.Second, time.Millisecond)
		clock.Step(pause*time.Millisecond - 1)
		require.True(t, clock.HasWaiters(), "it asked before %d ms", pause)
		clock.Step(1)
	}
	cancel()
	err := <-result
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "no answer")
}

// refusing is a client that gets no answer.
type refusing struct {
	client.Client
	asked chan struct{}
}

func (r refusing) Create(context.Context, client.Object, ...client.CreateOption) error {
	r.asked <- struct{}{}
	return errors.New("no answer")
}

func TestProbeFindsOutThatAFenceIsDown(t *testing.T) {
	c := cluster(t)
	for _, name := range []string{fence.PodsName, fence.BindingsName} {
		t.Run(name, func(t *testing.T) {
			binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: name}, binding))
			require.NoError(t, c.Delete(t.Context(), binding))
			t.Cleanup(func() {
				assert.NoError(t, (&fence.Installer{Client: c, Settings: settings}).Ensure(after(t)))
				assert.NoError(t, fence.Probe{Client: c}.Await(after(t), 1))
			})
			eventually(t, func(ct *assert.CollectT) {
				_, err := fence.Probe{Client: c}.Version(t.Context())
				require.ErrorIs(ct, err, fence.ErrNotEnforced)
				assert.ErrorContains(ct, err, name)
			})
		})
	}
}

func TestProbeTellsOtherErrorsFromAFenceThatIsDown(t *testing.T) {
	cluster(t)
	config := live.plane.AsUser("nobody")
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	_, err = fence.Probe{Client: c}.Version(t.Context())
	require.NotErrorIs(t, err, fence.ErrNotEnforced)
	require.True(t, apierrors.IsForbidden(err))
	require.ErrorContains(t, err, `User "nobody" cannot create resource "pods"`)
}

// The restricted pod security standard, which a cluster may enforce everywhere, does not stop the probe.
func TestProbeMeetsTheRestrictedStandard(t *testing.T) {
	c := cluster(t)
	namespace := &corev1.Namespace{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ProbeNamespace}, namespace))
	before := namespace.DeepCopy()
	namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	require.NoError(t, c.Patch(t.Context(), namespace, client.MergeFrom(before)))
	t.Cleanup(func() {
		delete(namespace.Labels, "pod-security.kubernetes.io/enforce")
		assert.NoError(t, c.Update(after(t), namespace))
	})
	time.Sleep(time.Second) // until the admission plugin has seen the label
	_, err := fence.Probe{Client: c}.Version(t.Context())
	require.NoError(t, err)
	require.Error(t, c.Create(t.Context(), pod(v1alpha1.ProbeNamespace), client.DryRunAll), "the label is in force")
}
