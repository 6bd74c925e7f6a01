package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
)

// The bounds of the product: a node that is added is locked, and one whose last pod has ended is released, within these.
const (
	lockBound    = 2 * time.Second
	releaseBound = time.Second
)

// rounds is how often each time is taken. The median counts, since any machine stalls now and then.
const rounds = 5

func TestAddedNodeIsLockedInTime(t *testing.T) {
	nodes := ownNodes(t, 2)
	r := tenant(t, "swift", nodes[0])
	requireMedian(t, lockBound, func(int) time.Duration {
		locked := whenNode(t, nodes[1], isLocked("swift", r.Name))
		began := time.Now()
		edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = nodes })
		took := moment(t, locked).Sub(began)
		require.Contains(t, indexData(t)["nodes"], "|"+nodes[1]+" swift|", "the index comes before the lock")
		edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = nodes[:1] })
		eventually(t, func(c *assert.CollectT) { requireFree(c, nodes[1]) })
		return took
	})
}

func TestNodeAddedByACommitIsLockedInTime(t *testing.T) {
	nodes := ownNodes(t, 2)
	t.Cleanup(func() { deleteReservation(t, "pushed-reservation") })
	without, with := reservationYAML("pushed", nodes[0]), reservationYAML("pushed", nodes...)
	r := repository(t, map[string]string{"pushed.yaml": without})
	follow(t, "pushed", r.URL)
	eventually(t, func(c *assert.CollectT) { requireLocked(c, nodes[0], "pushed", "pushed-reservation") })
	requireMedian(t, lockBound, func(int) time.Duration {
		locked := whenNode(t, nodes[1], isLocked("pushed", "pushed-reservation"))
		began := time.Now()
		commit(t, r, "Add a node", map[string]string{"pushed.yaml": with})
		took := moment(t, locked).Sub(began)
		require.Contains(t, indexData(t)["nodes"], "|"+nodes[1]+" pushed|", "the index comes before the lock")
		commit(t, r, "Take it away", map[string]string{"pushed.yaml": without})
		eventually(t, func(c *assert.CollectT) { requireFree(c, nodes[1]) })
		return took
	})
}

func TestNodeIsReleasedInTimeAfterItsPod(t *testing.T) {
	name := ownNodes(t, 1)[0]
	r := tenant(t, "leaving", name)
	requireMedian(t, releaseBound, func(round int) time.Duration {
		edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = []string{name} })
		eventually(t, func(c *assert.CollectT) { requireLocked(c, name, "leaving", r.Name) })
		p := pod("leaving", fmt.Sprintf("training-%d", round), name)
		running(t, p)
		edit(t, r.Name, func(r *v1alpha1.Reservation) { r.Spec.ReservedNodes = []string{} })
		eventually(t, func(c *assert.CollectT) { require.True(c, node(c, name).Spec.Unschedulable, "cordoned") })
		freed, ended := whenNode(t, name, isFree), whenPodEnded(t, p)
		finish(t, p)
		return moment(t, freed).Sub(moment(t, ended))
	})
}

// requireMedian takes a time in each round and requires that their median is within the bound.
func requireMedian(t *testing.T, bound time.Duration, round func(i int) time.Duration) {
	t.Helper()
	var took []time.Duration
	for i := range rounds {
		took = append(took, round(i))
	}
	t.Logf("took %v", took)
	slices.Sort(took)
	require.LessOrEqual(t, took[rounds/2], bound, "median of %v", took)
}

func isLocked(tenant, reservation string) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool {
		return n.Labels[v1alpha1.LabelTenant] == tenant && n.Annotations[v1alpha1.AnnotationReservation] == reservation &&
			slices.Equal(ourTaints(n), []string{"reserved=" + tenant + ":NoSchedule"})
	}
}

func isFree(n *corev1.Node) bool {
	return !lock.Bears(n) && len(ourTaints(n)) == 0 && !n.Spec.Unschedulable
}

// whenNode watches a node from now on and delivers the moment at which it is as wanted.
func whenNode(t *testing.T, name string, want func(*corev1.Node) bool) <-chan time.Time {
	t.Helper()
	w, err := kubernetes.NewForConfigOrDie(shared.Config).CoreV1().Nodes().Watch(t.Context(), only(name))
	require.NoError(t, err)
	return when(t, w, func(e watch.Event) bool {
		n, ok := e.Object.(*corev1.Node)
		return ok && want(n)
	})
}

// whenPodEnded watches a pod from now on and delivers the moment at which it has ended or is gone.
func whenPodEnded(t *testing.T, p *corev1.Pod) <-chan time.Time {
	t.Helper()
	w, err := kubernetes.NewForConfigOrDie(shared.Config).CoreV1().Pods(p.Namespace).Watch(t.Context(), only(p.Name))
	require.NoError(t, err)
	return when(t, w, func(e watch.Event) bool {
		p, ok := e.Object.(*corev1.Pod)
		return ok && (e.Type == watch.Deleted || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed)
	})
}

func only(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}

func when(t *testing.T, w watch.Interface, want func(watch.Event) bool) <-chan time.Time {
	t.Cleanup(w.Stop)
	seen := make(chan time.Time, 1)
	go func() {
		for e := range w.ResultChan() {
			if want(e) {
				seen <- time.Now()
				return
			}
		}
	}()
	return seen
}

// moment waits for what a watch is to see.
func moment(t *testing.T, seen <-chan time.Time) time.Time {
	t.Helper()
	select {
	case at := <-seen:
		return at
	case <-time.After(patience):
		require.Fail(t, "it was not seen to happen")
		return time.Time{}
	}
}
