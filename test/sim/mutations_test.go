package sim

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/reconciler/ledger"
	"github.com/reservation-operator/reservation-operator/reconciler/lock"
)

// mutations switch off one guard each. Each must be noticed, by one of the laws that are named.
var mutations = map[string]struct {
	mutate func(*parts)
	want   string
}{
	"drop the wait": {mutant{list: func(l *corev1.PodList) { l.Items = nil }}.into, "law 2"},
	"a pod that is being deleted is gone": {mutant{list: func(l *corev1.PodList) {
		l.Items = without(l.Items, func(p corev1.Pod) bool { return !p.DeletionTimestamp.IsZero() })
	}}.into, "law 2"},
	"believe whoever names a DaemonSet": {mutant{list: func(l *corev1.PodList) {
		l.Items = without(l.Items, func(p corev1.Pod) bool { return len(p.OwnerReferences) > 0 })
	}}.into, "law 2"},
	"an old list will do": {func(p *parts) {
		first := map[string]*corev1.PodList{}
		mutant{list: func(l *corev1.PodList) {
			if len(l.Items) == 0 {
				return
			}
			if name := l.Items[0].Spec.NodeName; first[name] == nil {
				first[name] = l.DeepCopy()
			} else {
				first[name].DeepCopyInto(l)
			}
		}}.into(p)
	}, "law 2, evictions"},
	"list before cordon":              {listBefore, "law 2, law 8"},
	"drop the UID precondition":       {mutant{evict: func(o *metav1.DeleteOptions) { o.Preconditions = nil }}.into, "evictions"},
	"no grace":                        {mutant{evict: func(o *metav1.DeleteOptions) { o.GracePeriodSeconds = ptr.To(int64(0)) }}.into, "evictions"},
	"evict unasked":                   {reading(func(r *v1alpha1.Reservation) { r.Spec.EvictOnRelease = true }), "evictions"},
	"delete at once":                  {reading(func(r *v1alpha1.Reservation) { r.Spec.DeleteAfter = &metav1.Duration{Duration: 1} }), "evictions"},
	"a node out of touch is like any": {mutant{read: ready}.into, "law 2, evictions"},
	"uncordon always": {mutant{node: func(_, is *corev1.Node) {
		is.Spec.Unschedulable = is.Spec.Unschedulable && is.Labels[v1alpha1.LabelTenant] != ""
	}}.into, "law 4"},
	"cordon without a mark": {mutant{node: func(_, is *corev1.Node) { delete(is.Annotations, v1alpha1.AnnotationCordoned) }}.into, "law 4"},
	"leave the cordon":      {mutant{node: func(was, is *corev1.Node) { is.Spec.Unschedulable = is.Spec.Unschedulable || was.Spec.Unschedulable }}.into, "law 4"},
	"skip the proof":        {func(p *parts) { p.Fence = trusting{} }, "index first, law 8"},
	"index after node":      {indexAfterNode, "index first, law 8"},
	"let pods in while releasing": {mutant{index: func(data map[string]string) {
		for line := range strings.Lines(data[allocate.KeyGrants]) {
			if f := strings.Fields(line); len(f) == 3 {
				data[allocate.KeyNodes] += f[0] + " t0|"
			}
		}
	}}.into, "law 8"},
	"grant before the release has ended": {func(p *parts) {
		p.View.Watch(func(name string) {
			if g, _, version, _ := p.View.Grant(name); g.Phase == allocate.Releasing {
				p.Ledger.Set(name, ledger.Report{Drained: true, IndexVersion: version})
			}
		}, nil)
	}, "law 2, law 8"},
	"a node without a lock is drained": {func(p *parts) {
		p.View.Watch(func(name string) {
			n := p.world.server.node(name)
			if g, _, version, _ := p.View.Grant(name); g.Phase == allocate.Releasing && n != nil && !bears(n) {
				p.Ledger.Set(name, ledger.Report{Drained: true, IndexVersion: version})
			}
		}, nil)
	}, "law 2"},
	"forget a node that is away":        {forgetAbsent, "law 10"},
	"forget a node without a last look": {func(p *parts) { p.Live = blind{p.Live} }, "law 2, law 9"},
	"ignore the resourceVersion": {mutant{patch: func(ctx context.Context, c client.Client, is *corev1.Node, p client.Patch) error {
		return c.Patch(ctx, is, unconditional(is, p))
	}}.into, "law 1, law 2, law 4, others' taints and labels stay"},
	"overwrite others' taints": {mutant{node: func(_, is *corev1.Node) {
		is.Spec.Taints = without(is.Spec.Taints, func(t corev1.Taint) bool { return t.Key != v1alpha1.TaintKey })
	}}.into, "others' taints and labels stay"},
	"take every taint of our key for ours": {mutant{node: func(_, is *corev1.Node) {
		is.Spec.Taints = without(is.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == v1alpha1.TaintKey && string(t.Effect) != is.Annotations[v1alpha1.AnnotationTaintEffect]
		})
	}}.into, "others' taints and labels stay"},
	"a new node inherits a release": {inheritRelease, "a new node is new"},
	"hand over in two patches":      {mutant{patch: twoPatches}.into, "law 1, law 2, law 3"},
	"label without the annotation":  {mutant{node: func(_, is *corev1.Node) { delete(is.Annotations, v1alpha1.AnnotationReservation) }}.into, "law 1"},
	"let a deleted Reservation go":  {mutant{read: letGo}.into, "law 9"},
	"the youngest wins": {mutant{reservations: func(l *v1alpha1.ReservationList) {
		for i := range l.Items {
			at := &l.Items[i].CreationTimestamp
			at.Time = start.Add(start.Add(1000 * time.Hour).Sub(at.Time))
		}
	}}.into, "law 10"},
	"overlook a holder": {mutant{reservations: func(l *v1alpha1.ReservationList) {
		l.Items = without(l.Items, func(r v1alpha1.Reservation) bool { return r.Name == "r0" })
	}}.into, "law 9, law 10, in the end"},
	"never hear of a pod's end": {func(p *parts) { p.Pods = deaf{} }, "released at once"},
	"write at rest":             {func(p *parts) { p.Fence = restless{p.Fence, p.Client} }, "law 7"},
}

// TestMutations demands that the simulation can fail.
func TestMutations(t *testing.T) {
	for name, m := range mutations {
		t.Run(name, func(t *testing.T) {
			result := Run(Options{Steps: 200_000, Seed: 1, mutate: m.mutate})
			require.NotEmpty(t, result.Violations, "not noticed in %d steps", result.Steps)
			v := result.Violations[0]
			require.Contains(t, strings.Split(m.want, ", "), v.Law, v.Text)
			t.Logf("%s, after %d steps", &v, result.Steps)
		})
	}
}

// listBefore has the pods of a node listed before nobody is let in any more: who comes after the decision is overlooked.
func listBefore(p *parts) {
	before := map[string]map[types.UID]bool{}
	p.View.Watch(func(name string) {
		g, _, _, _ := p.View.Grant(name)
		switch {
		case g.Phase == allocate.Held:
			delete(before, name)
		case before[name] == nil:
			before[name] = map[types.UID]bool{}
			for _, pod := range p.world.server.podsOn(name) {
				before[name][pod.UID] = true
			}
		}
	}, nil)
	mutant{list: func(l *corev1.PodList) {
		l.Items = without(l.Items, func(pod corev1.Pod) bool {
			seen := before[pod.Spec.NodeName]
			return seen != nil && !seen[pod.UID]
		})
	}}.into(p)
}

func reading(change func(*v1alpha1.Reservation)) func(*parts) {
	return mutant{read: func(_ context.Context, o client.Object) {
		if r, ok := o.(*v1alpha1.Reservation); ok && r.DeletionTimestamp.IsZero() {
			change(r)
		}
	}}.into
}

func ready(_ context.Context, o client.Object) {
	if n, ok := o.(*corev1.Node); ok {
		n.Status.Conditions = nil
	}
}

// indexAfterNode holds each index back until a node was written.
func indexAfterNode(p *parts) {
	p.Fence = trusting{}
	var held *corev1.ConfigMap
	mutant{
		store: func(index *corev1.ConfigMap) { held = index.DeepCopy() },
		patch: func(ctx context.Context, c client.Client, is *corev1.Node, patch client.Patch) error {
			err := c.Patch(ctx, is, patch)
			if held != nil && held.ResourceVersion == "" {
				_ = c.Create(ctx, held)
			} else if held != nil {
				_ = c.Update(ctx, held)
			}
			held = nil
			return err
		},
	}.into(p)
}

func forgetAbsent(p *parts) {
	mutant{index: func(data map[string]string) {
		var kept strings.Builder
		for line := range strings.Lines(data[allocate.KeyGrants]) {
			if name := strings.Fields(line)[0]; p.world.server.node(name) != nil {
				kept.WriteString(line)
			}
		}
		data[allocate.KeyGrants] = kept.String()
	}}.into(p)
}

// blind finds no Node where allocation looks for one before it forgets it.
type blind struct{ client.Reader }

func (b blind) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*corev1.Node); ok && taskOf(ctx).what == "allocate" {
		return notFound(nodes, key.Name)
	}
	return b.Reader.Get(ctx, key, o, opts...)
}

// inheritRelease shows the node reconciler a lock on nodes that are being released and bear none.
func inheritRelease(p *parts) {
	mutant{read: func(ctx context.Context, o client.Object) {
		n, ok := o.(*corev1.Node)
		if !ok || taskOf(ctx).what != "node" || lock.Bears(n) {
			return
		}
		if g, _, _, _ := p.View.Grant(n.Name); g.Phase == allocate.Releasing {
			n.Labels[v1alpha1.LabelTenant] = "t0"
		}
	}}.into(p)
}

func twoPatches(ctx context.Context, c client.Client, is *corev1.Node, p client.Patch) error {
	was := before(ctx, is)
	if was == nil {
		return c.Patch(ctx, is, p)
	}
	if from, to := was.Labels[v1alpha1.LabelTenant], is.Labels[v1alpha1.LabelTenant]; from == "" || to == "" || from == to {
		return c.Patch(ctx, is, p)
	}
	off := lock.Off(was)
	if err := c.Patch(ctx, off, client.MergeFrom(was)); err != nil {
		return err
	}
	return c.Patch(ctx, is, client.MergeFrom(off))
}

func letGo(ctx context.Context, o client.Object) {
	t := taskOf(ctx)
	if r, ok := o.(*v1alpha1.Reservation); ok && t.what == "status" && !r.DeletionTimestamp.IsZero() && len(r.Finalizers) > 0 {
		before := r.DeepCopy()
		r.Finalizers = nil
		_ = cachedClient{replica: t.replica}.Patch(ctx, r, client.MergeFrom(before))
	}
}

// restless writes whenever the fence is asked.
type restless struct {
	allocate.Fence
	client client.Client
}

func (r restless) Await(ctx context.Context, version int64) error {
	w := taskOf(ctx).replica.world
	if m, ok := w.server.get(configs, indexKey).(*corev1.ConfigMap); ok {
		m = m.DeepCopy()
		m.Annotations = map[string]string{"asked": w.Now().String()}
		_ = r.client.Update(ctx, m)
	}
	return r.Fence.Await(ctx, version)
}

func TestMutationsAreEnough(t *testing.T) {
	require.GreaterOrEqual(t, len(mutations), 12)
	laws := []string{}
	for _, m := range mutations {
		laws = append(laws, strings.Split(m.want, ", ")...)
	}
	for _, law := range []string{"law 1", "law 2", "law 3", "law 4", "law 7", "law 8", "law 9", "law 10", "evictions", "index first"} {
		require.Contains(t, laws, law, "no mutation breaks it")
	}
}
