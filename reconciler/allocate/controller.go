package allocate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/binding"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
)

const (
	// batch is how long changes are gathered into one decision and one write of the index.
	batch = 100 * time.Millisecond
	// maxBytes bounds the index well below a ConfigMap's 1 MiB.
	maxBytes = 900 << 10
	// proofTimeout bounds the wait for the API server to enforce a written index; proofRetry is the pause before
	// the second try, which doubles up to proofRetryMax, and proofInterval how often a standing fence is asked again.
	proofTimeout  = 5 * time.Second
	proofRetry    = 2 * time.Second
	proofRetryMax = 15 * time.Second
	proofInterval = time.Minute
	// keepRetry is the pause before the finalizer is tried again on a Reservation that did not take it.
	keepRetry = 2 * time.Second
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
	Ledger *ledger.Ledger
	// View is where the index is published.
	View *View

	// Clock tells the time.
	Clock clock.PassiveClock
	// Concurrency is how many requests about single objects are under way at once; 0 means 16.
	Concurrency int

	// known is the index that this process read or wrote last, and releasing holds, per releasing node, the version
	// since which it is known to be, so that a report about an earlier release is not believed. They need not survive
	// a restart: neither do the reports.
	known     Index
	releasing map[string]int64
	// provenAt is when the fence was last seen to stand, and refused how often it was not since.
	provenAt time.Time
	refused  int
}

// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservations,verbs=get;list;watch
// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservationbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,namespace=reservation-operator,verbs=create;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,namespace=reservation-operator,resourceNames=reservation-index,verbs=get;update

// Reconcile decides about every node, writes the index if it changed, waits until the API server enforces it and
// publishes it. It is called with the one key of this controller.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	decision, unkept, err := r.decide(ctx)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return ctrl.Result{RequeueAfter: batch}, nil // somebody else wrote it meanwhile: decide again on what is there
	case err != nil:
		r.View.Fail(err)
		return ctrl.Result{}, err
	}
	result := r.prove(ctx, decision)
	r.recallStale()
	switch {
	case apierrors.IsConflict(unkept):
		return ctrl.Result{RequeueAfter: batch}, nil // the cache is behind: nothing went wrong
	case unkept != nil:
		logf.FromContext(ctx).Error(unkept, "nodes are not given to a reservation that cannot be kept until it has released them")
		r.View.Fail(unkept)
		return ctrl.Result{RequeueAfter: keepRetry}, nil
	}
	return result, nil
}

// decide makes a decision and writes its index. Unkept is why some Reservations are left out of it.
func (r *Reconciler) decide(ctx context.Context) (decision Decision, unkept, err error) {
	stored, before, lost, err := loadIndex(ctx, r.Live, r.Namespace, r.Clock.Now())
	if err != nil {
		return Decision{}, nil, err
	}
	if before.Version != r.known.Version {
		r.releasing = nil // at the start, or somebody else wrote: what was known of releases is not any more
	}
	// A version that goes down would make the fence's answers about the higher one count.
	before.Version = max(before.Version, r.known.Version)
	reader := client.Reader(r.Client)
	if lost && r.known.Version > 0 {
		before.Grants = r.known.Grants // who takes it away from a running operator takes nothing away
	} else if lost {
		// The locks are all that is known now, so they are not read from a cache that may be behind.
		reader = r.Live
	}
	snapshot, err := gather(ctx, reader, before)
	if err != nil {
		return Decision{}, nil, err
	}
	if snapshot.Reservations, err = r.unseen(ctx, snapshot); err != nil {
		return Decision{}, nil, err
	}
	for node, version := range r.Ledger.Drained() {
		since, releasing := r.releasing[node]
		snapshot.Drained[node] = releasing && version >= since
	}
	decision = Decide(snapshot)
	if err := r.keepLocked(ctx, snapshot, decision.Index); err != nil {
		return Decision{}, nil, err
	}
	unkept = r.keep(ctx, snapshot, decision)
	decision.Index, err = writeIndex(ctx, r.Client, stored, decision.Index)
	if err != nil {
		return Decision{}, nil, err
	}
	r.track(decision.Index)
	return decision, unkept, nil
}

// unseen returns the Reservations with those that hold a node and that the cache does not know: they may be newer than it,
// and nobody loses a node because of that.
func (r *Reconciler) unseen(ctx context.Context, s Snapshot) ([]v1alpha1.Reservation, error) {
	known := map[string]bool{Orphan: true}
	for i := range s.Reservations {
		known[s.Reservations[i].Name] = true
	}
	for _, node := range slices.Sorted(maps.Keys(s.Index.Grants)) {
		grant := s.Index.Grants[node]
		name := grant.Reservation
		if known[name] || grant.Phase != Held {
			continue
		}
		known[name] = true
		reservation := v1alpha1.Reservation{}
		switch err := r.Live.Get(ctx, client.ObjectKey{Name: name}, &reservation); {
		case err == nil:
			s.Reservations = append(s.Reservations, reservation)
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading reservation %s: %w", name, err)
		}
	}
	return s.Reservations, nil
}

// keepLocked puts those grants back that the decision forgot and whose nodes bear a lock all the same, as the API
// server has them: the cache does not know yet that they were locked. Its next event brings the decision back.
func (r *Reconciler) keepLocked(ctx context.Context, s Snapshot, decided Index) error {
	before, forgotten := s.Index, []string{}
	for name := range before.Grants {
		if _, kept := decided.Grants[name]; !kept {
			forgotten = append(forgotten, name)
		}
	}
	r.View.Withhold(forgotten) // or one could be locked after it was looked at
	locked, errs := make([]bool, len(forgotten)), make([]error, len(forgotten))
	r.atOnce(len(forgotten), func(i int) {
		node := &corev1.Node{}
		err := r.Live.Get(ctx, client.ObjectKey{Name: forgotten[i]}, node)
		// One that is there after all, and that nobody has looked at since its release began, may be about to be locked.
		unseen := before.Grants[forgotten[i]].Phase != Freed && !s.Drained[forgotten[i]]
		locked[i] = err == nil && (unseen || lock.Bears(node))
		errs[i] = client.IgnoreNotFound(err)
	})
	for i, name := range forgotten {
		if grant := before.Grants[name]; locked[i] {
			if grant.Phase == Held {
				grant = Grant{Reservation: grant.Reservation, Phase: Releasing}
			}
			decided.Grants[name] = grant
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("reading unlocked nodes: %w", err)
	}
	return nil
}

// atOnce calls f for 0 to n-1, a few at a time, and returns after the last.
func (r *Reconciler) atOnce(n int, f func(i int)) {
	limit := r.Concurrency
	if limit == 0 {
		limit = 16
	}
	// Not with the caller's context: what was not tried must not look like what went well.
	workqueue.ParallelizeUntil(context.Background(), limit, n, f)
}

// track notes since when each releasing node is.
func (r *Reconciler) track(index Index) {
	releasing := map[string]int64{}
	for node, grant := range index.Grants {
		if grant.Phase != Releasing {
			continue
		}
		releasing[node] = index.Version
		if since, known := r.releasing[node]; known {
			releasing[node] = since
		}
	}
	r.releasing, r.known = releasing, index
}

// recallStale has those nodes looked at again that were reported drained before their present release is known to
// have begun. No change of their grant would do it.
func (r *Reconciler) recallStale() {
	for node, version := range r.Ledger.Drained() {
		if since, releasing := r.releasing[node]; releasing && version < since {
			r.View.Again(node)
		}
	}
}

// gather reads everything that a decision rests on, but for what was reported of nodes.
func gather(ctx context.Context, reader client.Reader, index Index) (Snapshot, error) {
	var reservations v1alpha1.ReservationList
	if err := reader.List(ctx, &reservations); err != nil {
		return Snapshot{}, fmt.Errorf("listing reservations: %w", err)
	}
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return Snapshot{}, fmt.Errorf("listing nodes: %w", err)
	}
	var bindings v1alpha1.ReservationBindingList
	if err := reader.List(ctx, &bindings, client.UnsafeDisableDeepCopy); err != nil {
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
	return s, nil
}

// NodeOf returns what allocation needs to know of a Node. It shares the node's labels.
func NodeOf(node *corev1.Node) Node {
	return Node{
		Name: node.Name, Labels: node.Labels, Deleting: !node.DeletionTimestamp.IsZero() || slices.ContainsFunc(node.Spec.Taints, condemned),
		Holder: node.Annotations[v1alpha1.AnnotationReservation], Tenant: node.Labels[v1alpha1.LabelTenant],
		Marked: lock.Bears(node),
	}
}

// condemned reports whether a taint says that its node is about to be deleted: the cluster autoscaler's or Karpenter's.
func condemned(t corev1.Taint) bool {
	switch t.Key {
	case "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption":
		return true
	}
	return false
}

// prove asks the fence whether it enforces the index and publishes the answer. It looks again soon after a no, and
// once in a while after a yes. One no about an index that was seen to be enforced is not believed: the API server was
// restarted, say, and a thousand statuses need not tell of it.
func (r *Reconciler) prove(ctx context.Context, decision Decision) ctrl.Result {
	enforced, version := r.View.Enforced()
	standing := enforced && version == decision.Index.Version
	if !standing || r.Clock.Since(r.provenAt) >= proofInterval {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		if err := r.Fence.Await(ctx, decision.Index.Version); err != nil {
			r.refused++
			doubt := report.FenceAdvice(err)
			if standing = standing && r.refused < 2; standing {
				doubt = ""
			}
			logf.FromContext(ctx).Error(err, "the fence is not proven; no node is locked or released until it is", "again", standing)
			report.FenceIntact(standing)
			r.View.Publish(decision, doubt)
			return ctrl.Result{RequeueAfter: min(proofRetry<<min(r.refused-1, 3), proofRetryMax)}
		}
		r.provenAt, r.refused = r.Clock.Now(), 0
	}
	report.FenceIntact(true)
	r.View.Publish(decision, "")
	return ctrl.Result{RequeueAfter: proofInterval}
}
