package sim

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// kind is one kind of object that the server stores.
type kind int

const (
	nodes kind = iota
	reservations
	bindings
	configs
	pods
	budgets
	daemons
	kinds
)

var resources = [kinds]string{"nodes", "reservations", "reservationbindings", "configmaps", "pods", "poddisruptionbudgets", "daemonsets"}

func kindOf(o client.Object) kind {
	switch o.(type) {
	case *corev1.Node:
		return nodes
	case *v1alpha1.Reservation:
		return reservations
	case *v1alpha1.ReservationBinding:
		return bindings
	case *corev1.ConfigMap:
		return configs
	case *corev1.Pod:
		return pods
	case *policyv1.PodDisruptionBudget:
		return budgets
	case *appsv1.DaemonSet, *metav1.PartialObjectMetadata:
		return daemons
	}
	panic(fmt.Sprintf("the model knows no %T", o))
}

func keyOf(o client.Object) string { return keyFor(o.GetNamespace(), o.GetName()) }

func keyFor(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// change is one event of a watch; a nil object is a deletion. Changes of one tick were made at once, in no order.
type change struct {
	tick   int64
	name   string
	object client.Object
}

// server is an API server in memory. Stored objects are never changed, only replaced, so that caches can share them.
// It tells observe of each change, before the next.
type server struct {
	mu      sync.Mutex
	objects [kinds]map[string]client.Object
	// versions counts the changes under each name, also over deletions: a resourceVersion or a UID never comes again.
	// They are counted by name so that what is done at once on several objects has no order.
	versions, births [kinds]map[string]int64
	logs             [kinds][]change
	sorted           [kinds]int
	onNode           map[string]map[string]*corev1.Pod
	tick             int64
	writes           int
	now              func() time.Time
	observe          func(by *task, k kind, before, after client.Object)
}

func newServer(now func() time.Time) *server {
	s := &server{now: now, onNode: map[string]map[string]*corev1.Pod{}}
	for k := range kinds {
		s.objects[k], s.versions[k], s.births[k] = map[string]client.Object{}, map[string]int64{}, map[string]int64{}
	}
	return s
}

func (s *server) get(k kind, name string) client.Object { return s.objects[k][name] }

func stored[T client.Object](s *server, k kind, name string) T {
	o, _ := s.objects[k][name].(T)
	return o
}

func (s *server) node(name string) *corev1.Node { return stored[*corev1.Node](s, nodes, name) }

func (s *server) reservation(name string) *v1alpha1.Reservation {
	return stored[*v1alpha1.Reservation](s, reservations, name)
}

func (s *server) names(k kind) []string { return slices.Sorted(maps.Keys(s.objects[k])) }

// podsOn returns the pods of a node, sorted.
func (s *server) podsOn(node string) []*corev1.Pod {
	on := s.onNode[node]
	out := make([]*corev1.Pod, 0, len(on))
	for _, name := range slices.Sorted(maps.Keys(on)) {
		out = append(out, on[name])
	}
	return out
}

// put stores an object that is the caller's to give away. By is the operator's task that asked for it, or nil.
func (s *server) put(by *task, o client.Object) {
	k, name := kindOf(o), keyOf(o)
	before := s.objects[k][name]
	if before != nil && len(o.GetFinalizers()) == 0 && k != pods && !o.GetDeletionTimestamp().IsZero() {
		s.remove(by, k, name)
		return
	}
	if before == nil {
		s.births[k][name]++
		o.SetUID(types.UID(fmt.Sprintf("%04x-%s-%d", mix(uint64(s.births[k][name]), hash(name))&0xffff, name, s.births[k][name])))
		o.SetCreationTimestamp(metav1.NewTime(s.now()))
		if k == reservations {
			o.SetGeneration(1)
		}
	}
	s.versions[k][name]++
	o.SetResourceVersion(fmt.Sprint(s.versions[k][name]))
	s.objects[k][name] = o
	s.index(k, name, before, o)
	s.note(by, k, name, before, o)
}

func (s *server) remove(by *task, k kind, name string) {
	if before := s.objects[k][name]; before != nil {
		s.versions[k][name]++
		delete(s.objects[k], name)
		s.index(k, name, before, nil)
		s.note(by, k, name, before, nil)
	}
}

func (s *server) index(k kind, name string, before, after client.Object) {
	if k != pods {
		return
	}
	if p, ok := before.(*corev1.Pod); ok {
		delete(s.onNode[p.Spec.NodeName], name)
	}
	if p, ok := after.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		if s.onNode[p.Spec.NodeName] == nil {
			s.onNode[p.Spec.NodeName] = map[string]*corev1.Pod{}
		}
		s.onNode[p.Spec.NodeName][name] = p
	}
}

func (s *server) note(by *task, k kind, name string, before, after client.Object) {
	if by != nil {
		s.writes++
	}
	if k <= bindings {
		s.logs[k] = append(s.logs[k], change{s.tick, name, after})
	}
	s.observe(by, k, before, after)
}

// log returns the changes of a kind from a place on. What was done at once is in the order of its names.
func (s *server) log(k kind, from int) []change {
	if s.sorted[k] < len(s.logs[k]) {
		slices.SortStableFunc(s.logs[k][s.sorted[k]:], func(a, b change) int {
			if a.tick != b.tick {
				return int(a.tick - b.tick)
			}
			if a.name < b.name {
				return -1
			} else if a.name > b.name {
				return 1
			}
			return 0
		})
		s.sorted[k] = len(s.logs[k])
	}
	return s.logs[k][from:]
}

// edit is a change by anybody but the operator; it does nothing if there is no such object.
func edit[T client.Object](s *server, k kind, name string, change func(T)) bool {
	before, ok := s.objects[k][name].(T)
	if !ok {
		return false
	}
	after := before.DeepCopyObject().(T)
	change(after)
	if equality.Semantic.DeepEqual(before, after) {
		return false
	}
	if k == reservations && !equality.Semantic.DeepEqual(any(before).(*v1alpha1.Reservation).Spec, any(after).(*v1alpha1.Reservation).Spec) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	s.put(nil, after)
	return true
}

// delete is what DELETE does: an object with finalizers is marked, and so is a pod on a node, which its kubelet ends.
func (s *server) delete(by *task, k kind, name string, grace *int64) {
	before := s.objects[k][name]
	if before == nil {
		return
	}
	pod, isPod := before.(*corev1.Pod)
	seconds := int64(0)
	if isPod && pod.Spec.NodeName != "" && active(pod) {
		seconds = corev1.DefaultTerminationGracePeriodSeconds
		if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
			seconds = *own
		}
		if grace != nil {
			seconds = *grace
		}
	}
	if len(before.GetFinalizers()) == 0 && seconds == 0 {
		s.remove(by, k, name)
		return
	}
	deadline := metav1.NewTime(s.now().Add(time.Duration(seconds) * time.Second))
	if ending := before.GetDeletionTimestamp(); !ending.IsZero() && (!isPod || !deadline.Before(ending)) {
		return
	}
	after := before.DeepCopyObject().(client.Object)
	after.SetDeletionTimestamp(&deadline)
	after.SetDeletionGracePeriodSeconds(&seconds)
	if before.GetDeletionTimestamp().IsZero() {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	s.put(by, after)
}

func notFound(k kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resources[k]}, name)
}

func conflict(k kind, name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: resources[k]}, name, fmt.Errorf("%s", why))
}

func active(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}
