package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
)

var (
	notReady   = corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoExecute}
	autoscaler = corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: corev1.TaintEffectNoSchedule}
)

func tainted(taints ...corev1.Taint) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taints...) }
}

func without(n *corev1.Node, key string) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range n.Spec.Taints {
		if t.Key != key {
			out = append(out, t)
		}
	}
	return out
}

// keys are the keys of a node's taints but the one that the API server puts on new nodes.
func keys(n *corev1.Node) (out []string) {
	for _, t := range without(n, notReady.Key) {
		out = append(out, t.Key+"="+t.Value+":"+string(t.Effect))
	}
	return out
}

func TestALockIsExactlyOnePatch(t *testing.T) {
	w := newWorld(t)
	w.join(tainted(autoscaler))
	w.grant(true, w.held())
	require.Equal(t, 5*time.Minute, w.reconcile().RequeueAfter, "it is looked at once more, whatever the watch told")
	require.Equal(t, []string{"patch node " + w.name}, w.wrote())

	n := w.get()
	require.Equal(t, w.tenant, n.Labels[v1alpha1.LabelTenant])
	require.Equal(t, "h200", n.Labels["pool"])
	require.Equal(t, []string{"ToBeDeletedByClusterAutoscaler=1:NoSchedule", "reserved=" + w.tenant + ":NoSchedule"}, keys(n))
	require.Equal(t, map[string]string{v1alpha1.AnnotationReservation: w.tenant, v1alpha1.AnnotationTaintEffect: "NoSchedule"}, reserved(n))
	require.False(t, n.Spec.Unschedulable)

	for range 3 {
		w.reconcile()
	}
	require.Empty(t, w.wrote(), "at rest nothing is written")
	require.Equal(t, n.ResourceVersion, w.get().ResourceVersion)
}

func TestNothingIsLockedBeforeTheFenceStands(t *testing.T) {
	w := newWorld(t)
	w.join()
	w.grant(false, w.held())
	w.reconcile()
	require.Empty(t, w.wrote())
	require.Equal(t, v1alpha1.ReasonFenceNotProven, w.said().Reason)
	w.grant(true, w.held())
	w.reconcile()
	require.Len(t, w.wrote(), 1)
	require.Zero(t, w.said(), "what was in the way is forgotten")
}

func TestANodeThatNobodyHasIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.join(func(n *corev1.Node) { n.Labels[v1alpha1.LabelTenant] = "x" })
	w.grant(true)
	w.ledger.Set(w.name, ledger.Report{PodsLeft: 3})
	w.reconcile()
	require.Empty(t, w.wrote())
	require.Zero(t, w.said())
}

func TestALockFollowsItsReservation(t *testing.T) {
	w := newWorld(t)
	w.join(tainted(autoscaler))
	w.lock()
	r := &v1alpha1.Reservation{}
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Name: w.tenant}, r))
	r.Spec.TaintEffect = corev1.TaintEffectPreferNoSchedule
	require.NoError(t, w.admin.Update(t.Context(), r))
	w.reconcile()
	require.Len(t, w.wrote(), 1, "old effect off and new effect on in one")
	require.Equal(t, []string{"ToBeDeletedByClusterAutoscaler=1:NoSchedule", "reserved=" + w.tenant + ":PreferNoSchedule"}, keys(w.get()))

	off := false
	r.Spec.ApplyTaint = &off
	require.NoError(t, w.admin.Update(t.Context(), r))
	w.reconcile()
	require.Len(t, w.wrote(), 1)
	require.Equal(t, []string{"ToBeDeletedByClusterAutoscaler=1:NoSchedule"}, keys(w.get()))
	require.Equal(t, w.tenant, w.get().Labels[v1alpha1.LabelTenant])
}

func TestCases_A15_OtherWritersAreNotUndone(t *testing.T) {
	interfere := func(n *corev1.Node) {
		n.Spec.Taints = append(without(n, notReady.Key), autoscaler)
		n.Labels["pool"] = "b200"
	}
	t.Run("between the read and the write of a lock", func(t *testing.T) {
		w := newWorld(t)
		w.join(tainted(notReady))
		w.before = func(string) { w.before = nil; w.edit(interfere) }
		w.grant(true, w.held())
		require.NotZero(t, w.reconcile().RequeueAfter, "a conflict comes back soon")
		require.Empty(t, reserved(w.get()), "and changes nothing")
		w.reconcile()
		require.Len(t, w.wrote(), 2)
		n := w.get()
		require.Equal(t, []string{"ToBeDeletedByClusterAutoscaler=1:NoSchedule", "reserved=" + w.tenant + ":NoSchedule"}, keys(n))
		require.Len(t, n.Spec.Taints, 2, "what another removed stays removed")
		require.Equal(t, "b200", n.Labels["pool"])
	})
	t.Run("between the read and the write of a release", func(t *testing.T) {
		w := newWorld(t)
		w.join(tainted(notReady))
		w.lock()
		w.before = func(string) { w.before = nil; w.edit(interfere) }
		w.grant(true, w.freed())
		require.NotZero(t, w.reconcile().RequeueAfter)
		require.Equal(t, w.tenant, w.get().Labels[v1alpha1.LabelTenant])
		w.reconcile()
		n := w.get()
		require.Equal(t, []corev1.Taint{autoscaler}, n.Spec.Taints)
		require.NotContains(t, n.Labels, v1alpha1.LabelTenant)
		require.Equal(t, "b200", n.Labels["pool"])
		require.Empty(t, reserved(n))
	})
	t.Run("not in many rounds either", func(t *testing.T) {
		w := newWorld(t)
		w.join()
		for i := range 30 {
			taint := corev1.Taint{Key: fmt.Sprintf("example.com/other-%d", i), Effect: corev1.TaintEffectNoSchedule}
			w.before = func(string) { w.before = nil; w.edit(tainted(taint)) }
			w.grant(true, w.held())
			if i%2 == 1 {
				w.grant(true, w.freed())
			}
			for w.reconcile().RequeueAfter == 20*time.Millisecond {
			}
		}
		require.Len(t, keys(w.get()), 30)
	})
}

func TestCases_A16_AnAdminsCordonStays(t *testing.T) {
	w := newWorld(t)
	w.join(cordoned)
	w.lock()
	require.True(t, w.get().Spec.Unschedulable)
	p := w.run("p")
	w.grant(true, w.releasing())
	w.reconcile()
	require.NotContains(t, reserved(w.get()), v1alpha1.AnnotationCordoned)
	w.end(p)
	w.grant(true, w.freed())
	w.reconcile()
	require.Empty(t, reserved(w.get()))
	require.True(t, w.get().Spec.Unschedulable)
}

func TestCases_A17_ATaintOfSomebodyElseIsReported(t *testing.T) {
	w := newWorld(t)
	theirs := corev1.Taint{Key: "reserved", Value: "old", Effect: corev1.TaintEffectNoSchedule}
	w.join(tainted(theirs))
	w.grant(true, w.held())
	require.NotZero(t, w.reconcile().RequeueAfter, "it may go before the cache sees that it came")
	require.Empty(t, w.wrote())
	require.Equal(t, v1alpha1.ReasonTaintConflict, w.said().Reason)
	require.Contains(t, w.said().Message, "kubectl taint node "+w.name+" reserved:NoSchedule-")

	w.edit(func(n *corev1.Node) { n.Spec.Taints = without(n, "reserved") })
	w.reconcile()
	require.Len(t, w.wrote(), 1)
	require.Zero(t, w.said())
}

func TestAHandoverIsOnePatchAfterTheLastPod(t *testing.T) {
	w := newWorld(t)
	w.join()
	w.lock()
	next := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "u-"}}
	require.NoError(t, w.admin.Create(t.Context(), next))
	w.reserve(next.Name)
	p := w.run("p")
	w.grant(true, allocate.Grant{Reservation: next.Name, Namespaces: []string{next.Name}})
	w.reconcile()
	require.Empty(t, w.wrote())
	require.True(t, w.pods.nodes[w.name])
	require.Contains(t, w.said().WaitingFor, w.tenant+"/p")
	w.end(p)
	w.reconcile()
	require.Equal(t, []string{"patch node " + w.name}, w.wrote())
	require.Equal(t, []string{"reserved=" + next.Name + ":NoSchedule"}, keys(w.get()))
	require.Equal(t, next.Name, w.get().Labels[v1alpha1.LabelTenant])
	require.False(t, w.pods.nodes[w.name])
}

func TestAForbiddenPatchSaysWhatToAskAndToDo(t *testing.T) {
	w := newWorld(t)
	w.join()
	reader := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: w.tenant},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{v1alpha1.Group}, Resources: []string{"reservations"}, Verbs: []string{"get", "list"}},
		},
	}
	require.NoError(t, w.admin.Create(t.Context(), reader))
	require.NoError(t, w.admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.tenant}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: w.tenant},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: w.tenant}},
	}))
	limited, err := client.NewWithWatch(live.plane.AsUser(w.tenant), client.Options{Scheme: scheme})
	require.NoError(t, err)
	w.Client = w.counted(limited)
	w.grant(true, w.held())
	require.Equal(t, 15*time.Second, w.reconcile().RequeueAfter)
	require.Equal(t, v1alpha1.ReasonNodePatchForbidden, w.said().Reason)
	require.Contains(t, w.said().Message, "kubectl auth can-i patch nodes --as=system:serviceaccount:reservation-operator:reservation-operator")

	reader.Rules[0].Verbs = append(reader.Rules[0].Verbs, "patch")
	require.NoError(t, w.admin.Update(t.Context(), reader))
	require.Eventually(t, func() bool { w.reconcile(); return w.said().Reason == "" }, time.Minute, 50*time.Millisecond)
	require.Equal(t, w.tenant, w.get().Labels[v1alpha1.LabelTenant])
}

func TestANodeThatIsGoneIsForgotten(t *testing.T) {
	w := newWorld(t)
	n := w.join()
	w.lock()
	w.run("p")
	w.grant(true, w.releasing())
	w.reconcile()
	w.reconcile()
	require.True(t, w.pods.nodes[w.name])
	require.NotZero(t, w.said())
	require.NoError(t, w.admin.Delete(t.Context(), n))
	w.reconcile()
	require.Zero(t, w.said())
	require.False(t, w.pods.nodes[w.name])
}

func TestForeignPodsAreCountedAndLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.join()
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "o-"}}
	require.NoError(t, w.admin.Create(t.Context(), other))
	foreign := w.run("foreign", in(other.Name))
	w.run("own")
	w.lock()
	wait := w.reconcile().RequeueAfter
	require.NotZero(t, wait, "locking comes first")
	require.Empty(t, w.said().ForeignPods)
	w.clock.SetTime(w.clock.Now().Add(wait))
	again := w.reconcile().RequeueAfter
	require.Equal(t, []string{other.Name + "/foreign"}, w.said().ForeignPods)
	require.NotZero(t, again)
	w.clock.SetTime(w.clock.Now().Add(again / 2))
	w.reconcile()
	require.Len(t, w.said().ForeignPods, 1, "not asked again before its time")

	w.end(foreign)
	w.clock.SetTime(w.clock.Now().Add(again))
	require.Zero(t, w.reconcile().RequeueAfter)
	require.Empty(t, w.said().ForeignPods)
	require.Empty(t, w.wrote(), "they are reported, never killed")

	// Another lock, another count: pods may have come while the node was free.
	w.grant(true, w.releasing())
	w.end(w.run("gone"))
	w.grant(true, w.freed())
	w.end(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "own"}})
	w.reconcile()
	require.NotContains(t, w.get().Labels, v1alpha1.LabelTenant)
	w.run("foreign-2", in(other.Name))
	w.lock()
	w.clock.SetTime(w.clock.Now().Add(w.reconcile().RequeueAfter))
	w.reconcile()
	require.Equal(t, []string{other.Name + "/foreign-2"}, w.said().ForeignPods)
}

// What a manager has set on a node names it; one that only removes leaves nothing on record.
func TestWhoTakesALockOffIsNamedFromManagedFields(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want string
	}{
		"who only removes": {`{"metadata":{"labels":{"reserved.tenant":null}}}`, "w lost its lock more than once; it is put back"},
		"who writes, too":  {`{"metadata":{"labels":{"reserved.tenant":null,"janitor":"was-here-%d"}}}`, "(besides the operator, janitor wrote the node last)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.join()
			time.Sleep(time.Second) // managedFields count in those, and who made the node is no suspect
			w.clock.SetTime(time.Now())
			w.lock()
			strip := func(round int) {
				body := c.body
				if strings.Contains(body, "%d") {
					body = fmt.Sprintf(body, round)
				}
				require.NoError(t, w.admin.Patch(t.Context(), w.get(), client.RawPatch(types.MergePatchType, []byte(body)), client.FieldOwner("janitor")))
			}
			for round := range 2 {
				strip(round)
				w.reconcile()
			}
			strip(2)
			require.NotZero(t, w.reconcile().RequeueAfter, "it is not put back at once")
			require.Equal(t, v1alpha1.ReasonLockRemoved, w.said().Reason)
			require.Contains(t, w.said().Message, strings.ReplaceAll(c.want, "w lost", w.name+" lost"))
		})
	}
}
