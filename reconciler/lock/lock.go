package lock

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// ConflictError says that somebody else's taint stands where the lock's taint must: Kubernetes allows one value per
// key and effect.
type ConflictError struct {
	// Node and Taint are where the conflict is.
	Node  string
	Taint corev1.Taint
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("node %s bears the taint %s, which this operator did not put there; remove it with: kubectl taint node %s %s:%s-",
		e.Node, e.Taint.ToString(), e.Node, e.Taint.Key, e.Taint.Effect)
}

// On returns the node as it must be while the Reservation holds it: its label, its taint if it taints, its
// annotations, and no trace of a release; a cordon of this operator is undone. Another tenant's lock of ours is
// replaced, so a handover is one write. The error is a *ConflictError.
func On(node *corev1.Node, r *v1alpha1.Reservation) (*corev1.Node, error) {
	n := uncordoned(node)
	delete(n.Annotations, v1alpha1.AnnotationReleasingSince)
	if r.Taints() {
		taint := corev1.Taint{Key: v1alpha1.TaintKey, Value: r.Spec.Tenant, Effect: r.Effect()}
		if err := ensureTaint(n, taint); err != nil {
			return nil, err
		}
		setAnnotation(n, v1alpha1.AnnotationTaintEffect, string(taint.Effect))
	} else {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, ours(node))
		delete(n.Annotations, v1alpha1.AnnotationTaintEffect)
	}
	setLabel(n, v1alpha1.LabelTenant, r.Spec.Tenant)
	setAnnotation(n, v1alpha1.AnnotationReservation, r.Name)
	return n, nil
}

// ensureTaint gives the node the taint in place of ours, if it bears one. One that is right already keeps its place
// and its time, so that a second call changes nothing.
func ensureTaint(n *corev1.Node, taint corev1.Taint) error {
	own := ours(n)
	same := func(t corev1.Taint) bool { return t.ToString() == taint.ToString() }
	for _, t := range n.Spec.Taints {
		if t.Key == taint.Key && t.Effect == taint.Effect && t.Value != taint.Value && !own(t) {
			return &ConflictError{Node: n.Name, Taint: t}
		}
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return own(t) && !same(t) })
	if !slices.ContainsFunc(n.Spec.Taints, same) {
		n.Spec.Taints = append(n.Spec.Taints, taint)
	}
	return nil
}

// Off returns the node without its lock: label, taint and annotations are off, and it is uncordoned if this operator
// cordoned it.
func Off(node *corev1.Node) *corev1.Node {
	n := uncordoned(node)
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, ours(node))
	delete(n.Labels, v1alpha1.LabelTenant)
	for _, key := range annotations {
		delete(n.Annotations, key)
	}
	return n
}

// Releasing returns the node marked as being released since the given time by the named Reservation, and cordoned.
// The cordon is marked as ours only if nobody had cordoned the node before.
func Releasing(node *corev1.Node, reservation string, since time.Time) *corev1.Node {
	n := node.DeepCopy()
	setAnnotation(n, v1alpha1.AnnotationReleasingSince, since.UTC().Format(time.RFC3339))
	if !n.Spec.Unschedulable {
		n.Spec.Unschedulable = true
		setAnnotation(n, v1alpha1.AnnotationCordoned, reservation)
	}
	return n
}

// Disowned returns the node without our mark on its cordon, or nil if there is none to take back: somebody has
// uncordoned a node that we had cordoned, so whatever cordon comes next is theirs.
func Disowned(node *corev1.Node) *corev1.Node {
	if _, ours := node.Annotations[v1alpha1.AnnotationCordoned]; !ours || node.Spec.Unschedulable {
		return nil
	}
	n := node.DeepCopy()
	delete(n.Annotations, v1alpha1.AnnotationCordoned)
	return n
}

// Holds reports whether the node bears the Reservation's lock, whole and not being released.
func Holds(node *corev1.Node, r *v1alpha1.Reservation) bool {
	want, err := On(node, r)
	return err == nil && Same(node, want)
}

// Bears reports whether the node bears any part of a lock: the label, or one of the annotations, so that what a
// half-removed lock left behind (our cordon, say) is cleaned up as well.
func Bears(node *corev1.Node) bool {
	_, labelled := node.Labels[v1alpha1.LabelTenant]
	return labelled || slices.ContainsFunc(annotations, func(key string) bool {
		_, annotated := node.Annotations[key]
		return annotated
	})
}

// Since returns when the node's release began; false if it bears no such time.
func Since(node *corev1.Node) (time.Time, bool) {
	since, err := time.Parse(time.RFC3339, node.Annotations[v1alpha1.AnnotationReleasingSince])
	return since, err == nil
}

// Same reports whether two states of one node are equal in all that a lock is made of: the label, the taints of its
// key, the annotations and the cordon. What others change on the node makes no difference.
func Same(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable && SameMarks(a, b) &&
		!slices.ContainsFunc(annotations, func(key string) bool { return !sameValue(a.Annotations, b.Annotations, key) })
}

// SameMarks reports whether two states of one node are equal in what says whose it is: the label, the taints of the
// lock's key, and the annotations that name the holder and the effect of its taint.
func SameMarks(a, b *corev1.Node) bool {
	return sameValue(a.Labels, b.Labels, v1alpha1.LabelTenant) && slices.Equal(reserved(a.Spec.Taints), reserved(b.Spec.Taints)) &&
		sameValue(a.Annotations, b.Annotations, v1alpha1.AnnotationReservation) &&
		sameValue(a.Annotations, b.Annotations, v1alpha1.AnnotationTaintEffect)
}

// annotations are those that this package writes.
var annotations = []string{
	v1alpha1.AnnotationReservation, v1alpha1.AnnotationTaintEffect, v1alpha1.AnnotationReleasingSince, v1alpha1.AnnotationCordoned,
}

func sameValue(a, b map[string]string, key string) bool {
	x, inA := a[key]
	y, inB := b[key]
	return x == y && inA == inB
}

// reserved returns the taints of the lock's key, whoever put them there, as text and without their times.
func reserved(taints []corev1.Taint) []string {
	var out []string
	for _, t := range taints {
		if t.Key == v1alpha1.TaintKey {
			out = append(out, t.ToString())
		}
	}
	return out
}

// ours returns which taints of the node this operator put there: the one that bears the value of the node's tenant
// label and the effect that the annotation remembers. On a node that names no Reservation (a lock made by hand) it is
// any effect, and on one that lost its label the annotation alone tells: the key has one taint per effect.
func ours(node *corev1.Node) func(corev1.Taint) bool {
	tenant := node.Labels[v1alpha1.LabelTenant]
	effect := node.Annotations[v1alpha1.AnnotationTaintEffect]
	byHand := node.Annotations[v1alpha1.AnnotationReservation] == ""
	return func(t corev1.Taint) bool {
		sameEffect := effect != "" && string(t.Effect) == effect
		if tenant == "" {
			return t.Key == v1alpha1.TaintKey && sameEffect
		}
		return t.Key == v1alpha1.TaintKey && t.Value == tenant && (byHand || sameEffect)
	}
}

// uncordoned returns a copy of the node without a cordon of this operator's.
func uncordoned(node *corev1.Node) *corev1.Node {
	n := node.DeepCopy()
	if _, ours := n.Annotations[v1alpha1.AnnotationCordoned]; ours {
		n.Spec.Unschedulable = false
		delete(n.Annotations, v1alpha1.AnnotationCordoned)
	}
	return n
}

func setLabel(n *corev1.Node, key, value string) {
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[key] = value
}

func setAnnotation(n *corev1.Node, key, value string) {
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[key] = value
}
