package allocate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/binding"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

const (
	// batch is how long changes are gathered into one decision and one write of the index.
	batch = 100 * time.Millisecond
	// maxBytes bounds the index well below a ConfigMap's 1 MiB.
	maxBytes = 900 << 10
	// proofTimeout bounds the wait for the API server to enforce a written index; proofRetry is the pause before
	// the next try, and proofInterval how often a standing fence is asked again.
	proofTimeout  = 5 * time.Second
	proofRetry    = 2 * time.Second
	proofInterval = time.Minute
)

// Fence answers whether the API server enforces the index. Await returns nil once it enforces the given version or a
// later one, and an error that says what is in the way when the context ends first. It may be called by one
// goroutine at a time and leaves nothing in the cluster.
type Fence interface {
	Await(ctx context.Context, version int64) error
}

// Reconciler is the one worker that decides about all nodes and writes the index. It has a single key: whatever
// changed, everything is decided again.
type Reconciler struct {
	// Client reads Reservations and Nodes from a cache.
	Client client.Client
	// Live reads the index past every cache.
	Live client.Reader
	// Namespace is the operator's.
	Namespace string
	// Fence proves that a written index is enforced.
	Fence Fence
	// Ledger says which releasing nodes are drained.
	Ledger *report.Ledger
	// View is where the index is published.
	View *View

	// Clock tells the time.
	Clock clock.PassiveClock

	// releasing holds, per node, the version of the index that began its release, so that a report about an earlier
	// release is not believed. It need not survive a restart: neither do the reports.
	releasing map[string]int64
	// provenAt is when the fence was last seen to stand.
	provenAt time.Time
}

// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservations,verbs=get;list;watch
// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservationbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,namespace=reservation-operator,verbs=create;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,namespace=reservation-operator,resourceNames=reservation-index,verbs=get;update;patch

// Reconcile decides about every node, writes the index if it changed, waits until the API server enforces it and
// publishes it. It is called with the one key of this controller.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	stored, err := r.load(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	index, err := Parse(stored.Data)
	if err != nil {
		// Somebody else wrote it. The nodes' own locks say who holds what.
		logf.FromContext(ctx).Error(err, "the index cannot be read; it is rebuilt from the nodes")
		index = empty(r.Clock.Now())
	}
	snapshot, err := r.gather(ctx, index)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision := Decide(snapshot)
	if decision.Index, err = r.write(ctx, stored, index, decision.Index); err != nil {
		return ctrl.Result{}, err
	}
	return r.prove(ctx, decision), nil
}

// load returns the index ConfigMap as the API server has it, made if it was missing.
func (r *Reconciler) load(ctx context.Context) (*corev1.ConfigMap, error) {
	return EnsureIndex(ctx, r.Live, r.Client, r.Namespace, r.Clock.Now())
}

// EnsureIndex returns the index ConfigMap, and makes one that grants nothing if there is none. The fences deny every
// pod while it is missing, so it has to be there before they are. It may be called by several replicas at once.
func EnsureIndex(ctx context.Context, live client.Reader, w client.Writer, namespace string, now time.Time) (*corev1.ConfigMap, error) {
	key := types.NamespacedName{Namespace: namespace, Name: v1alpha1.IndexName}
	stored := &corev1.ConfigMap{}
	err := live.Get(ctx, key, stored)
	if apierrors.IsNotFound(err) {
		stored = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Data:       empty(now).Data(),
		}
		if err = w.Create(ctx, stored, client.FieldOwner(v1alpha1.FieldManager)); apierrors.IsAlreadyExists(err) {
			err = live.Get(ctx, key, stored)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the index %s: %w", key, err)
	}
	return stored, nil
}

// empty returns an index that grants nothing. Its version is the time in seconds, which is above that of any index
// that was lost: the counter grows by far less than one a second.
func empty(now time.Time) Index {
	return Index{Version: now.Unix(), Grants: map[string]Grant{}}
}

func (r *Reconciler) gather(ctx context.Context, index Index) (Snapshot, error) {
	var reservations v1alpha1.ReservationList
	if err := r.Client.List(ctx, &reservations); err != nil {
		return Snapshot{}, fmt.Errorf("listing reservations: %w", err)
	}
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return Snapshot{}, fmt.Errorf("listing nodes: %w", err)
	}
	var bindings v1alpha1.ReservationBindingList
	if err := r.Client.List(ctx, &bindings, client.UnsafeDisableDeepCopy); err != nil {
		return Snapshot{}, fmt.Errorf("listing reservation bindings: %w", err)
	}
	_, bound := binding.Decide(bindings.Items, reservations.Items)
	s := Snapshot{
		Reservations: reservations.Items, Bound: bound, Index: index, MaxBytes: maxBytes,
		Nodes: make([]Node, 0, len(nodes.Items)), Drained: map[string]bool{},
	}
	for i := range nodes.Items {
		s.Nodes = append(s.Nodes, NodeOf(&nodes.Items[i]))
	}
	for node, version := range r.Ledger.Drained() {
		s.Drained[node] = version >= r.releasing[node]
	}
	return s, nil
}

// NodeOf returns what allocation needs to know of a Node. It shares the node's labels.
func NodeOf(node *corev1.Node) Node {
	return Node{
		Name: node.Name, Labels: node.Labels, Deleting: !node.DeletionTimestamp.IsZero(),
		Holder: node.Annotations[v1alpha1.AnnotationReservation], Tenant: node.Labels[v1alpha1.LabelTenant],
	}
}

// write stores the decided index, with the resourceVersion of the one that the decision was made from as
// precondition, and returns it. An index that says the same already is not written.
func (r *Reconciler) write(ctx context.Context, stored *corev1.ConfigMap, before, decided Index) (Index, error) {
	if data := decided.Data(); decided.Equal(before) && stored.Data[KeyNodes] == data[KeyNodes] && stored.Data[KeyBound] == data[KeyBound] {
		return before, nil
	}
	decided.Version = before.Version + 1
	updated := stored.DeepCopy()
	updated.Data = decided.Data()
	if err := r.Client.Update(ctx, updated, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return Index{}, fmt.Errorf("writing the index: %w", err)
	}
	if r.releasing == nil {
		r.releasing = map[string]int64{}
	}
	for node, grant := range decided.Grants {
		if grant.Phase == Releasing && before.Grants[node].Phase != Releasing {
			r.releasing[node] = decided.Version
		} else if grant.Phase == Held {
			delete(r.releasing, node)
		}
	}
	return decided, nil
}

// prove asks the fence whether it enforces the index and publishes the answer. It looks again soon after a no, and
// once in a while after a yes.
func (r *Reconciler) prove(ctx context.Context, decision Decision) ctrl.Result {
	enforced, version := r.View.Enforced()
	if !enforced || version != decision.Index.Version || r.Clock.Since(r.provenAt) >= proofInterval {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		if err := r.Fence.Await(ctx, decision.Index.Version); err != nil {
			logf.FromContext(ctx).Error(err, "the fence is not proven; no node is locked or released until it is")
			r.View.Publish(decision, false)
			return ctrl.Result{RequeueAfter: proofRetry}
		}
		r.provenAt = r.Clock.Now()
	}
	r.View.Publish(decision, true)
	return ctrl.Result{RequeueAfter: proofInterval}
}
