package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// wildcard is what walks through plain taints.
var wildcard = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}

func TestForeignPodsNeverRunOnAReservedNode(t *testing.T) {
	nodes := ownNodes(t, 2)
	name, free := nodes[0], nodes[1]
	r := tenant(t, "guarded", name)
	namespace(t, "foreign")
	for _, state := range []string{"running", "killed"} {
		t.Run("with the operator "+state, func(t *testing.T) {
			if state == "killed" {
				shared.Operator.Kill()
				defer func() { require.NoError(t, shared.Operator.Start(t.Context())) }()
			}
			tolerant := pod("foreign", "tolerant-"+state, "")
			tolerant.Spec.Tolerations, tolerant.Spec.Affinity = wildcard, preferring(name, free)
			require.Equal(t, free, running(t, tolerant), "it runs on the free node at once")

			determined := pod("foreign", "determined-"+state, name)
			determined.Spec.Tolerations = wildcard
			create(t, determined)
			eventually(t, func(c *assert.CollectT) {
				require.NoError(c, shared.Client.Get(t.Context(), client.ObjectKeyFromObject(determined), determined))
				require.NotEmpty(c, determined.Status.Conditions)
				require.Equal(c, corev1.PodReasonUnschedulable, determined.Status.Conditions[0].Reason)
			})
			require.Empty(t, determined.Spec.NodeName)

			pinned := pod("foreign", "pinned-"+state, "")
			pinned.Spec.NodeName = name
			err := shared.Client.Create(t.Context(), pinned)
			require.True(t, apierrors.IsForbidden(err), "refused: %v", err)
			require.ErrorContains(t, err, name)
			require.NotContains(t, err.Error(), "guarded", "nothing about the other tenant")

			bound := pod("foreign", "bound-"+state, "")
			bound.Spec.SchedulerName = "mine"
			create(t, bound)
			err = shared.Client.SubResource("binding").Create(t.Context(), bound, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: bound.Namespace, Name: bound.Name},
				Target:     corev1.ObjectReference{Kind: "Node", Name: name},
			})
			require.True(t, apierrors.IsForbidden(err), "refused: %v", err)
		})
	}
	requireLocked(t, name, "guarded", r.Name)
}

// preferring sends a pod to one of two nodes, and to the first as long as the scheduler knows nothing against it: there
// it would be refused at each bind, and be Pending for ever.
func preferring(first, second string) *corev1.Affinity {
	hostname := func(names ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: names,
		}}}
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{hostname(first, second)},
		},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: hostname(first)}},
	}}
}

func TestForeignPodOfHigherPriorityPreemptsNobody(t *testing.T) {
	name := ownNodes(t, 1)[0]
	tenant(t, "preempted", name)
	create(t, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000})
	whole := corev1.ResourceList{"nvidia.com/gpu": node(t, name).Status.Allocatable["nvidia.com/gpu"]}
	victim := pod("preempted", "training", name)
	victim.Spec.Containers[0].Resources.Limits = whole
	running(t, victim)

	namespace(t, "pushy")
	urgent := pod("pushy", "urgent", name)
	urgent.Spec.Tolerations, urgent.Spec.PriorityClassName = wildcard, "urgent"
	urgent.Spec.Containers[0].Resources.Limits = whole
	create(t, urgent)
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, shared.Client.Get(t.Context(), client.ObjectKeyFromObject(urgent), urgent))
		require.NotEmpty(c, urgent.Status.Conditions)
		require.Contains(c, urgent.Status.Conditions[0].Message, "didn't match Pod's node affinity/selector")
	})
	require.Empty(t, urgent.Status.NominatedNodeName)
	require.NoError(t, shared.Client.Get(t.Context(), client.ObjectKeyFromObject(victim), victim))
	require.Nil(t, victim.DeletionTimestamp)
	require.Equal(t, corev1.PodRunning, victim.Status.Phase)
}

func TestOthersAreNotHeldUpWhileTheOperatorIsDown(t *testing.T) {
	tenant(t, "down", ownNodes(t, 1)...)
	namespace(t, "bystander")
	shared.Operator.Kill()
	defer func() { require.NoError(t, shared.Operator.Start(t.Context())) }()
	running(t, pod("bystander", "ordinary", ""))
	running(t, pod("kube-system", "e2e-system", ""))

	err := shared.Client.Create(t.Context(), pod("down", "tenants-own", ""))
	require.Error(t, err, "a tenant's pod is not let in uninjected")
	require.ErrorContains(t, err, "inject.scheduling.coreweave.cloud")
}

func TestBindingOfANamespaceWithoutARightInjectsNothing(t *testing.T) {
	r := tenant(t, "closed", ownNodes(t, 1)...)
	namespace(t, "thief")
	binding := &v1alpha1.ReservationBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "thief", Name: "mine-now"},
		Spec:       v1alpha1.ReservationBindingSpec{ReservationName: r.Name, PodSelector: &metav1.LabelSelector{}},
	}
	err := shared.Client.Create(t.Context(), binding)
	require.True(t, apierrors.IsForbidden(err), "refused: %v", err)

	// With the webhook down it slips in, and still counts for nothing.
	shared.Operator.Kill()
	create(t, binding)
	require.NoError(t, shared.Operator.Start(t.Context()))
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, shared.Client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding))
		require.Equal(c, v1alpha1.ReasonNamespaceNotAccepted, ready(binding.Status.Conditions).Reason)
	})
	p := pod("thief", "pod", "")
	running(t, p)
	require.Nil(t, p.Spec.Affinity)
}
