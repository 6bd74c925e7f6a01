package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
	"github.com/reservation-operator/reservation-operator/test/cluster"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// patience is how long a test waits for what must come true. It is no measure of speed: times_test.go has those.
const patience = 30 * time.Second

// eventually waits until everything that check requires is so.
func eventually(t *testing.T, check func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, patience, 25*time.Millisecond)
}

var taken int

// ownNodes returns the names of n nodes that no other test uses.
func ownNodes(t *testing.T, n int) []string {
	t.Helper()
	names := make([]string, 0, n)
	for range n {
		taken++
		names = append(names, fmt.Sprintf("e2e-%02d", taken))
	}
	return names
}

func node(t require.TestingT, name string) *corev1.Node {
	n := &corev1.Node{}
	require.NoError(t, shared.Client.Get(context.Background(), types.NamespacedName{Name: name}, n))
	return n
}

// requireLocked requires that the node bears exactly the tenant's lock and is open to its pods.
func requireLocked(t require.TestingT, name, tenant, reservation string) {
	n := node(t, name)
	require.Equal(t, tenant, n.Labels[v1alpha1.LabelTenant], "label of %s", name)
	require.Equal(t, []string{"reserved=" + tenant + ":NoSchedule"}, ourTaints(n), "taints of %s", name)
	require.Equal(t, reservation, n.Annotations[v1alpha1.AnnotationReservation], "annotation of %s", name)
	require.NotContains(t, n.Annotations, v1alpha1.AnnotationReleasingSince)
	require.NotContains(t, n.Annotations, v1alpha1.AnnotationCordoned)
}

// requireFree requires that nothing of a lock is left on the node.
func requireFree(t require.TestingT, name string) {
	n := node(t, name)
	require.False(t, lock.Bears(n), "%s bears a lock: %v %v", name, n.Labels, n.Annotations)
	require.Empty(t, ourTaints(n), "taints of %s", name)
	for key := range n.Annotations {
		require.NotContains(t, key, v1alpha1.Group, "annotations of %s", name)
	}
}

func ourTaints(n *corev1.Node) []string {
	var taints []string
	for _, taint := range n.Spec.Taints {
		if taint.Key == v1alpha1.TaintKey {
			taints = append(taints, taint.ToString())
		}
	}
	return taints
}

// tenant makes a namespace, a Reservation of the nodes and a binding of every pod, and removes them, and whatever
// runs there, at the end. The Reservation is named TENANT-reservation.
func tenant(t *testing.T, name string, nodes ...string) *v1alpha1.Reservation {
	t.Helper()
	namespace(t, name)
	r := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-reservation"},
		Spec:       v1alpha1.ReservationSpec{Tenant: name, ReservedNodes: append([]string{}, nodes...)},
	}
	create(t, r)
	create(t, &v1alpha1.ReservationBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "all-pods"},
		Spec:       v1alpha1.ReservationBindingSpec{ReservationName: r.Name, PodSelector: &metav1.LabelSelector{}},
	})
	eventually(t, func(c *assert.CollectT) {
		for _, n := range nodes {
			requireLocked(c, n, name, r.Name)
		}
		requireBound(c, name)
	})
	return r
}

// requireBound requires that the namespace's binding all-pods is ready.
func requireBound(t require.TestingT, namespace string) {
	b := &v1alpha1.ReservationBinding{}
	require.NoError(t, shared.Client.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: "all-pods"}, b))
	require.True(t, conditions.IsReady(b), conditions.GetMessage(b, v1alpha1.ConditionReady))
}

func namespace(t *testing.T, name string) {
	t.Helper()
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	eventually(t, func(c *assert.CollectT) {
		account := &corev1.ServiceAccount{}
		require.NoError(c, shared.Client.Get(context.Background(), types.NamespacedName{Namespace: name, Name: "default"}, account))
	})
}

// create creates an object and deletes it at the end of the test.
func create(t *testing.T, o client.Object) {
	t.Helper()
	require.NoError(t, shared.Client.Create(context.Background(), o))
	t.Cleanup(func() {
		err := shared.Client.Delete(context.Background(), o)
		if !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
	})
}

// pod returns a pod that runs anywhere; with a node's name, only there (by its hostname label, as a person would).
func pod(namespace, name, node string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "trainer:v1"}}},
	}
	if node != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return p
}

// running creates the pod and waits until it runs; it returns where.
func running(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	create(t, p)
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, shared.Client.Get(context.Background(), client.ObjectKeyFromObject(p), p))
		require.Equal(c, corev1.PodRunning, p.Status.Phase)
	})
	return p.Spec.NodeName
}

// finish lets a running pod end by itself.
func finish(t *testing.T, p *corev1.Pod) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, controlplane.CompleteAnnotation)
	require.NoError(t, shared.Client.Patch(context.Background(), p, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// edit changes a Reservation as kubectl edit would.
func edit(t *testing.T, name string, change func(*v1alpha1.Reservation)) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		r := &v1alpha1.Reservation{}
		require.NoError(c, shared.Client.Get(context.Background(), types.NamespacedName{Name: name}, r))
		change(r)
		require.NoError(c, shared.Client.Update(context.Background(), r))
	})
}

func reservation(t require.TestingT, name string) *v1alpha1.Reservation {
	r := &v1alpha1.Reservation{}
	require.NoError(t, shared.Client.Get(context.Background(), types.NamespacedName{Name: name}, r))
	return r
}

func source(t require.TestingT, name string) *v1alpha1.ReservationSource {
	s := &v1alpha1.ReservationSource{}
	require.NoError(t, shared.Client.Get(context.Background(), types.NamespacedName{Name: name}, s))
	return s
}

// repository makes a Git repository whose first commit holds the files.
func repository(t *testing.T, files map[string]string) *cluster.Repository {
	t.Helper()
	dir, empty := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(empty+"/README.md", []byte("A tenants' repository.\n"), 0o600))
	r, err := cluster.NewRepository(dir, empty)
	require.NoError(t, err)
	if len(files) > 0 {
		commit(t, r, "Reserve nodes", files)
	}
	return r
}

// commit writes the files (an empty content removes the file), commits and pushes; it returns the commit's hash.
func commit(t *testing.T, r *cluster.Repository, message string, files map[string]string) string {
	t.Helper()
	for file, content := range files {
		if content == "" {
			require.NoError(t, r.Remove(file))
		} else {
			require.NoError(t, r.Write(file, content))
		}
	}
	hash, err := r.Commit(message)
	require.NoError(t, err)
	return hash
}

// follow makes a ReservationSource that looks at the repository's main branch every half second.
func follow(t *testing.T, name, url string) {
	t.Helper()
	create(t, &v1alpha1.ReservationSource{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ReservationSourceSpec{
			URL: url, Ref: &v1alpha1.GitReference{Branch: "main"}, Interval: metav1.Duration{Duration: 500 * time.Millisecond},
		},
	})
}

// reservationYAML is a Reservation as a tenant's folder holds it.
func reservationYAML(tenant string, nodes ...string) string {
	text := "apiVersion: scheduling.coreweave.cloud/v1alpha1\nkind: Reservation\nmetadata:\n  name: " + tenant +
		"-reservation\nspec:\n  tenant: " + tenant + "\n  reservedNodes:"
	if len(nodes) == 0 {
		return text + " []\n"
	}
	for _, n := range nodes {
		text += "\n    - " + n
	}
	return text + "\n"
}

// bindingYAML is a ReservationBinding of every pod of the tenant's namespace.
func bindingYAML(tenant string) string {
	return "apiVersion: scheduling.coreweave.cloud/v1alpha1\nkind: ReservationBinding\nmetadata:\n  name: all-pods\n  namespace: " +
		tenant + "\nspec:\n  reservationName: " + tenant + "-reservation\n  podSelector: {}\n"
}

// deleteReservation deletes a Reservation that a commit made and waits until its nodes are free.
func deleteReservation(t *testing.T, name string) {
	t.Helper()
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(t, client.IgnoreNotFound(shared.Client.Delete(context.Background(), r)))
	eventually(t, func(c *assert.CollectT) {
		err := shared.Client.Get(context.Background(), client.ObjectKeyFromObject(r), r)
		require.True(c, apierrors.IsNotFound(err), "still there: %v", err)
	})
}
