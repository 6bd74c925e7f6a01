package commit

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/apply"
	"github.com/reservation-operator/reservation-operator/reconciler/plan"
	"github.com/reservation-operator/reservation-operator/reconciler/report"
	"github.com/reservation-operator/reservation-operator/source"
	"github.com/reservation-operator/reservation-operator/source/fetch"
	"github.com/reservation-operator/reservation-operator/source/forge"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// Reconciler follows the repositories of all ReservationSources.
type Reconciler struct {
	// Client writes, and reads Reservations, ReservationBindings and Nodes from a cache.
	Client client.Client
	// Live reads past every cache.
	Live client.Reader
	// Namespace is the operator's: of the Secrets, the index, and of the dry runs whose own namespace is not made yet.
	Namespace string
	// User is whom the API server knows the operator as, for messages; empty is the installation's service account.
	User string
	// ReservedNamespaces and ReservedLabels may not come from a repository: the namespaces that the fences exempt,
	// and the label that exempts one.
	ReservedNamespaces, ReservedLabels []string

	// Chain reads repositories; the zero Chain is the real one.
	Chain source.Chain
	// Reporter tells the forge; nil tells nobody.
	Reporter forge.Reporter
	// Events takes what is worth an event.
	Events events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// Concurrency is how many sources are in hand at once; 0 is 4.
	Concurrency int

	memories memories
}

// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservationsources,verbs=get;list;watch
// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservationsources/status,verbs=patch
// +kubebuilder:rbac:groups=scheduling.coreweave.cloud,resources=reservations;reservationbindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces;resourcequotas;limitranges,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=secrets,namespace=reservation-operator,verbs=get
// +kubebuilder:rbac:groups="",resources=configmaps,namespace=reservation-operator,resourceNames=reservation-index,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// step is one step of a source's way. It returns how the way ends, or nil to go on.
type step struct {
	// resting steps are also done when the commit at the head is applied already.
	resting bool
	do      func(context.Context, *run) *report.Outcome
}

// way is a source's way, from top to bottom.
var way = []step{
	{true, suspended},
	{true, restUntilDue},
	{false, gatherSecret},
	{false, look},
	{false, restIfKnown},
	{false, load},
	{false, gatherFacts},
	{false, finish},
	{false, judge},
	{false, decidePlan},
	{false, begin},
	{false, write},
	{true, prune},
	{false, record},
	{true, awaitNodes},
}

// run is one reconcile of one source.
type run struct {
	*Reconciler
	source *v1alpha1.ReservationSource
	// stored is the source as it was last read or written.
	stored *v1alpha1.ReservationSource
	memory *memory
	// resting says that the commit at the head is applied and nobody changed its objects; due, that the repository
	// was looked at.
	resting, due bool
	// observed says that the generation of the spec was answered; untouched, that the conditions stay as they are.
	observed, untouched bool

	// What the steps find, in their order.
	request source.Request
	head    fetch.Head
	loaded  *source.Loaded
	facts   facts
	preview *apply.Preview
	// warnings are the findings that do not reject the commit.
	warnings []render.Finding
	plan     plan.Plan
	result   apply.Result
	pruned   apply.Pruned
}

// Reconcile brings one source a step further and writes its status once, if it changed.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	// Past the cache: a history that lags behind would be written back without its newest entry.
	s := &v1alpha1.ReservationSource{}
	if err := r.Live.Get(ctx, req.NamespacedName, s); err != nil {
		if apierrors.IsNotFound(err) {
			r.memories.forget(req.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading ReservationSource %s: %w", req.Name, err)
	}
	if !s.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // its objects stay (deletionPolicy Orphan)
	}
	x := &run{Reconciler: r, source: s, stored: s.DeepCopy(), memory: r.memories.get(s)}
	defer func() {
		if patchErr := x.patch(ctx); client.IgnoreNotFound(patchErr) != nil {
			err = kerrors.NewAggregate([]error{err, fmt.Errorf("writing the status of ReservationSource %s: %w", s.Name, patchErr)})
		}
	}()
	outcome := x.walk(ctx)
	if !x.untouched {
		outcome.Mark(s)
		x.observe(outcome)
	}
	return outcome.Result(x.untilNextLook())
}

// walk does the steps until one of them ends the way.
func (x *run) walk(ctx context.Context) report.Outcome {
	for _, s := range way {
		if x.resting && !s.resting {
			continue
		}
		if outcome := s.do(ctx, x); outcome != nil {
			return *outcome
		}
	}
	return report.Done("") // not reached: the last step always ends
}

// observe notes that the generation and the request for a reconcile were answered.
func (x *run) observe(outcome report.Outcome) {
	status := &x.source.Status
	if x.observed || outcome.OK() {
		status.ObservedGeneration = x.source.Generation
	} else if status.ObservedGeneration == 0 {
		status.ObservedGeneration = -1
	}
	if requested := x.source.Annotations[v1alpha1.AnnotationReconcileRequest]; requested != "" {
		status.LastHandledReconcileAt = requested
	}
}

// patch writes the status if it changed: all of it in one patch, so that nobody sees a condition without the history
// that belongs to it. Nobody else writes it.
func (x *run) patch(ctx context.Context) error {
	if equality.Semantic.DeepEqual(x.stored.Status, x.source.Status) {
		return nil
	}
	written := x.source.DeepCopy()
	if err := x.Client.Status().Patch(ctx, written, client.MergeFrom(x.stored), client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return err
	}
	x.stored = x.source.DeepCopy()
	return nil
}

// interval is how often the repository is looked at.
func (x *run) interval() time.Duration {
	if interval := x.source.Spec.Interval.Duration; interval > 0 {
		return interval
	}
	return time.Minute
}

// untilNextLook is the time that is left of the interval.
func (x *run) untilNextLook() time.Duration {
	left := x.interval() - x.Clock.Since(x.memory.looked)
	if left <= 0 || left > x.interval() {
		return x.interval()
	}
	return left
}

// waiting, stalled and retry end the way. All but retry come back at the next look, or earlier by a watch.
func (x *run) waiting(reason, message string) *report.Outcome {
	outcome := report.Waiting(reason, message, x.interval())
	return &outcome
}

func (x *run) stalled(reason, message string) *report.Outcome {
	x.observed = true
	outcome := report.Stalled(reason, message, x.interval())
	return &outcome
}

// retry goes the whole way again: what an earlier pass came to says nothing of the commit that the repository has now.
func (x *run) retry(reason, message string, err error) *report.Outcome {
	if x.due && !x.resting {
		x.memory.verdict = nil
	}
	outcome := report.Retry(reason, message, err)
	return &outcome
}
