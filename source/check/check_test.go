package check

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// object makes an object of a file from a line of YAML.
func object(t *testing.T, file, text string) render.Object {
	t.Helper()
	o := render.Object{File: file, Line: 1, Unstructured: &unstructured.Unstructured{}}
	require.NoError(t, yaml.Unmarshal([]byte(text), &o.Object))
	return o
}

const (
	fooNamespace   = `{apiVersion: v1, kind: Namespace, metadata: {name: tenant-foo}}`
	fooReservation = `{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: foo},
		spec: {tenant: tenant-foo, reservedNodes: [gpu-01, gpu-02]}}`
	poolReservation = `{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: pool},
		spec: {tenant: tenant-foo, nodeSelector: {matchLabels: {pool: b}}}}`
	fooBinding = `{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: ReservationBinding, metadata: {name: foo, namespace: tenant-foo},
		spec: {reservationName: foo, podSelector: {}}}`
	fooQuota = `{apiVersion: v1, kind: ResourceQuota, metadata: {name: foo, namespace: tenant-foo}, spec: {hard: {cpu: "1"}}}`
)

// commit makes a set of objects, each in a file of its own: a.yaml, b.yaml and so on.
func commit(t *testing.T, texts ...string) Set {
	t.Helper()
	s := Set{Source: "tenants", Path: "tenants"}
	for i, text := range texts {
		s.Objects = append(s.Objects, object(t, string(rune('a'+i))+".yaml", text))
	}
	return s
}

func live(name, source string, nodes ...string) v1alpha1.Reservation {
	r := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "live"}}
	if source != "" {
		r.Labels = map[string]string{v1alpha1.LabelSource: source}
	}
	r.Spec = v1alpha1.ReservationSpec{Tenant: name, ReservedNodes: nodes}
	return r
}

func text(findings []render.Finding) []string {
	var out []string
	for _, f := range findings {
		line := f.String()
		if f.Warning {
			line = "warning: " + line
		}
		out = append(out, line)
	}
	return out
}

type checkCase struct {
	objects []string
	change  func(*Set)
	want    []string // a beginning of each line, in order
}

func (tc checkCase) run(t *testing.T) {
	s := commit(t, tc.objects...)
	if tc.change != nil {
		tc.change(&s)
	}
	want := text(Check(s))
	require.Len(t, want, len(tc.want), "got:\n%s", strings.Join(want, "\n"))
	for i := range tc.want {
		require.Truef(t, strings.HasPrefix(want[i], tc.want[i]), "want a line that begins with\n%s\ngot\n%s", tc.want[i], want[i])
	}
	for range 10 {
		rand.Shuffle(len(s.Objects), func(i, j int) { s.Objects[i], s.Objects[j] = s.Objects[j], s.Objects[i] })
		require.Equal(t, want, text(Check(s)), "the order of the objects must not matter")
	}
}

func TestCheckKinds(t *testing.T) {
	for name, tc := range map[string]checkCase{
		"a tenant's four objects are fine": {objects: []string{fooNamespace, fooReservation, fooBinding, fooQuota}},
		"a limit range is fine":            {objects: []string{`{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: tenant-foo}}`}},
		"another kind": {
			objects: []string{`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: tenant-foo}}`},
			want:    []string{"a.yaml:1: Deployment tenant-foo/web: kind: Deployment (apps/v1) may not be in a tenants' repository; Reservation, "}},
		"a source of its own": {
			objects: []string{`{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: ReservationSource, metadata: {name: x}}`},
			want:    []string{"a.yaml:1: ReservationSource x: kind: ReservationSource (scheduling.coreweave.cloud/v1alpha1) may not"}},
		"our kind in another group": {
			objects: []string{`{apiVersion: example.com/v1, kind: Reservation, metadata: {name: x}}`},
			want:    []string{"a.yaml:1: Reservation x: kind: Reservation (example.com/v1) may not"}},
		"an unknown version": {
			objects: []string{`{apiVersion: scheduling.coreweave.cloud/v2, kind: Reservation, metadata: {name: x}}`},
			want:    []string{`a.yaml:1: Reservation x: apiVersion: version "v2" of Reservation is not known; write scheduling.coreweave.cloud/v1alpha1`}},
		"an empty set": {
			want: []string{"tenants: the commit contains no objects, so that it would release every node: check spec.path"}},
		"an empty set that is meant": {change: func(s *Set) { s.AllowEmpty = true }},
		"one object twice": {
			objects: []string{fooReservation, fooReservation},
			want:    []string{"b.yaml:1: Reservation foo: metadata.name: is in the commit twice, here and in a.yaml:1; remove one"}},
		"one object twice in two versions": {
			objects: []string{fooReservation, strings.Replace(fooReservation, "v1alpha1", "v1beta1", 1)},
			want: []string{
				`b.yaml:1: Reservation foo: apiVersion: version "v1beta1"`,
				"b.yaml:1: Reservation foo: metadata.name: is in the commit twice, here and in a.yaml:1"}},
		"two kinds of one name": {objects: []string{fooNamespace, strings.Replace(fooQuota, "name: foo", "name: tenant-foo", 1)}},
	} {
		t.Run(name, func(t *testing.T) { silence(&tc).run(t) })
	}
}

// silence keeps the warning about foreign namespaces out of tests that are about something else: it makes the
// source's own what the Reservations accept.
func silence(tc *checkCase) *checkCase {
	change := tc.change
	tc.change = func(s *Set) {
		s.Live.Namespaces = map[string]string{}
		for _, n := range []string{"tenant-foo", "tenant-bar", "team-a", "kube-system", "reservation-operator", "reservation-fence-probe", "web"} {
			s.Live.Namespaces[n] = s.Source
		}
		if change != nil {
			change(s)
		}
	}
	return tc
}

func TestCheckMetadata(t *testing.T) {
	in := func(meta string) []string {
		return []string{`{apiVersion: v1, kind: Namespace, metadata: {name: tenant-foo, ` + meta + `}}`}
	}
	const ns = "a.yaml:1: Namespace tenant-foo: metadata."
	for name, tc := range map[string]checkCase{
		"people's labels and annotations":       {objects: in(`labels: {team: foo}, annotations: {reserved.tenant: x}`)},
		"break-glass is people's too":           {objects: in(`annotations: {scheduling.coreweave.cloud/reconcile: disabled}`)},
		"another word for break-glass":          {objects: in(`annotations: {scheduling.coreweave.cloud/reconcile: "off"}`), want: []string{ns + `annotations[scheduling.coreweave.cloud/reconcile]: must be "disabled", not "off"`}},
		"the source's label":                    {objects: in(`labels: {scheduling.coreweave.cloud/source: other}`), want: []string{ns + "labels[scheduling.coreweave.cloud/source]: is the operator's own"}},
		"the operator's annotation":             {objects: in(`annotations: {scheduling.coreweave.cloud/revision: x}`), want: []string{ns + "annotations[scheduling.coreweave.cloud/revision]: is the operator's own"}},
		"the label that exempts from the fence": {objects: in(`labels: {example.com/exempt: "1"}`), change: func(s *Set) { s.ReservedLabels = []string{"example.com/exempt"} }, want: []string{ns + "labels[example.com/exempt]: may not come from"}},
		"an export's empty creation time":       {objects: in(`creationTimestamp: null`)},
		"an export's leftovers": {
			objects: in(`uid: x, resourceVersion: "1", ownerReferences: [], finalizers: [a/b]`),
			want:    []string{ns + "finalizers: ", ns + "ownerReferences: ", ns + "resourceVersion: is set by the API server", ns + "uid: "}},
		"a status": {
			objects: []string{strings.Replace(fooReservation, "spec:", "status: {reserved: 3}, spec:", 1)},
			want:    []string{"a.yaml:1: Reservation foo: status: is written by controllers"}},
		"no namespace": {
			objects: []string{strings.Replace(fooQuota, ", namespace: tenant-foo", "", 1)},
			want:    []string{"a.yaml:1: ResourceQuota foo: metadata.namespace: is required for a ResourceQuota"}},
		"a namespace on a cluster-scoped kind": {
			objects: []string{strings.Replace(fooReservation, "name: foo", "name: foo, namespace: ops", 1)},
			want:    []string{"a.yaml:1: Reservation ops/foo: metadata.namespace: a Reservation is in no namespace"}},
		"no name": {
			objects: []string{`{apiVersion: v1, kind: Namespace, metadata: {generateName: x}}`, `{apiVersion: v1, kind: Namespace}`},
			want: []string{"a.yaml:1: Namespace: metadata.generateName: is set by", "a.yaml:1: Namespace: metadata.name: is required",
				"b.yaml:1: Namespace: metadata.name: is required"}},
		"the system's namespace": {
			objects: []string{`{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}`, strings.Replace(fooQuota, "tenant-foo", "kube-public", 1)},
			change:  func(s *Set) { s.Live.Namespaces["kube-public"] = "" },
			want: []string{"a.yaml:1: Namespace kube-system: metadata.name: the namespace kube-system is not a tenant's",
				"b.yaml:1: ResourceQuota kube-public/foo: metadata.namespace: the namespace kube-public"}},
		"the operator's namespaces": {
			objects: []string{strings.Replace(fooQuota, "tenant-foo", "reservation-operator", 1), strings.Replace(fooQuota, "tenant-foo", "reservation-fence-probe", 1),
				strings.Replace(fooQuota, "tenant-foo", "web", 1)},
			change: func(s *Set) { s.ReservedNamespaces = []string{"web"} },
			want:   []string{"a.yaml:1: ResourceQuota reservation-operator/foo", "b.yaml:1: ResourceQuota reservation-fence-probe/foo", "c.yaml:1: ResourceQuota web/foo"}},
		"the operator's namespace by another name": {
			objects: []string{strings.Replace(fooQuota, "tenant-foo", "web", 1)}, change: func(s *Set) { s.OperatorNamespace = "web" },
			want: []string{"a.yaml:1: ResourceQuota web/foo: metadata.namespace"}},
	} {
		t.Run(name, func(t *testing.T) { silence(&tc).run(t) })
	}
}

// Names that are too long for a label are no trouble: a Reservation's name never becomes one, so they are accepted up
// to the API's 253 characters, and never cut.
func TestCases_A13_Names(t *testing.T) {
	named := func(name string) string { return strings.Replace(fooReservation, "name: foo", "name: "+name, 1) }
	long := strings.Repeat("a", 69)
	other := func(name string) string {
		return strings.ReplaceAll(strings.ReplaceAll(named(name), "gpu-0", "gpu-1"), "tenant-foo", "tenant-bar")
	}
	for name, tc := range map[string]checkCase{
		"(a), (b) two of 70 characters that differ in the last": {objects: []string{named(long + "1"), other(long + "2")}},
		"(c) dots": {objects: []string{named("gpu.h200.team-alpha")}},
		"(d) capitals": {objects: []string{named("Team-Alpha")},
			want: []string{"a.yaml:1: Reservation Team-Alpha: metadata.name: a lowercase RFC 1123 subdomain must"}},
		"(e) a hyphen as the 63rd character": {objects: []string{named(strings.Repeat("a", 62) + "-b")}},
		"(f) letters beyond ASCII": {objects: []string{named("équipe-a")},
			want: []string{"a.yaml:1: Reservation équipe-a: metadata.name: a lowercase RFC 1123 subdomain must"}},
		"beyond what can be stored": {objects: []string{named(strings.Repeat("a", 254))},
			want: []string{"a.yaml:1: Reservation " + strings.Repeat("a", 254) + ": metadata.name: must be no more than 253"}},
		"a namespace beyond 63": {objects: []string{`{apiVersion: v1, kind: Namespace, metadata: {name: ` + long + `}}`},
			want: []string{"a.yaml:1: Namespace " + long + ": metadata.name: must be no more than 63"}},
	} {
		t.Run(name, func(t *testing.T) { silence(&tc).run(t) })
	}
}

func TestCheckSchema(t *testing.T) {
	spec := func(spec string) []string {
		return []string{`{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: foo}, spec: {tenant: tenant-foo, ` + spec + `}}`}
	}
	const foo = "a.yaml:1: Reservation foo: "
	for name, tc := range map[string]checkCase{
		"unknown fields, all of them": {
			objects: spec(`reservedNode: [gpu-01], nodeSelector: {matchLabel: {a: b}}`),
			want:    []string{foo + "spec.nodeSelector.matchLabel: there is no such field", foo + "spec.reservedNode: there is no such field"}},
		"an unknown field beside the spec": {
			objects: []string{strings.Replace(fooReservation, "spec:", "specs: {}, spec:", 1)}, want: []string{foo + "specs: there is no such field"}},
		"another case": {objects: spec(`ReservedNodes: [gpu-01]`), want: []string{foo + "spec.ReservedNodes: there is no such field"}},
		"a word for a list": {
			objects: spec(`reservedNodes: gpu-01`), want: []string{foo + "spec.reservedNodes: must be a list of strings, not a string"}},
		"a number for a word": {
			objects: []string{strings.Replace(fooReservation, "tenant: tenant-foo", "tenant: 17", 1)}, want: []string{foo + "spec.tenant: must be a string (quote it), not a number"}},
		"a word for a truth": {objects: spec(`applyTaint: "yes"`), want: []string{foo + "spec.applyTaint: must be true or false, not a string"}},
		"a list for a map":   {objects: spec(`nodeSelector: []`), want: []string{foo + "spec.nodeSelector: must be a map, not a list"}},
		"a bad duration":     {objects: spec(`evictAfter: soon`), want: []string{foo + "spec: has a value that cannot be read: "}},
	} {
		t.Run(name, func(t *testing.T) { silence(&tc).run(t) })
	}
}

func TestCheckNodes(t *testing.T) {
	second := strings.NewReplacer("name: foo", "name: bar", "tenant-foo", "tenant-bar", "gpu-01", "gpu-03").Replace(fooReservation)
	for name, tc := range map[string]checkCase{
		"two Reservations of the commit, one node": {
			objects: []string{fooReservation, second},
			want:    []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also reserved by Reservation bar in b.yaml:1: a node belongs to one"}},
		"the one that lives already is right": {
			objects: []string{fooReservation, second},
			change: func(s *Set) {
				foo, bar := reservation("foo", 0), reservation("bar", 1)
				s.Live.Before = map[string]*v1alpha1.Reservation{"foo": &foo, "bar": &bar}
			},
			want: []string{"b.yaml:1: Reservation bar: spec.reservedNodes: gpu-02 is also reserved by Reservation foo in a.yaml:1: a node belongs to one"}},
		"several nodes in one line": {
			objects: []string{fooReservation, strings.ReplaceAll(second, "gpu-03", "gpu-01")},
			want:    []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-01, gpu-02 are also reserved by Reservation bar"}},
		"a live one of another source": {
			objects: []string{fooReservation}, change: func(s *Set) { s.Live.Reservations = append(s.Live.Reservations, live("zoo", "other", "gpu-02")) },
			want: []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also reserved by the live Reservation zoo of the source other"}},
		"a live one without a source": {
			objects: []string{fooReservation}, change: func(s *Set) { s.Live.Reservations = append(s.Live.Reservations, live("zoo", "", "gpu-02")) },
			want: []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also reserved by the live Reservation zoo: a node"}},
		"its own earlier self": {
			objects: []string{fooReservation}, change: func(s *Set) { s.Live.Reservations = append(s.Live.Reservations, live("foo", "tenants", "gpu-02")) }},
		"two live ones are not this commit's fault": {
			objects: []string{fooReservation}, change: func(s *Set) {
				s.Live.Reservations = append(s.Live.Reservations, live("x", "", "gpu-09"), live("y", "", "gpu-09"))
			}},
		"one Reservation, one node twice": {
			objects: []string{strings.Replace(fooReservation, "gpu-01", "gpu-02", 1)},
			want:    []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is named more than once: leave one line"}},
		"a node that does not exist": {
			objects: []string{fooReservation}, change: func(s *Set) { s.Live.Nodes = map[string]map[string]string{"gpu-02": nil} },
			want: []string{"warning: a.yaml:1: Reservation foo: spec.reservedNodes: no node of that name exists: gpu-01; it is locked when"}},
		"a node that a live one holds by its selector": {
			objects: []string{fooReservation}, change: pooled(nil),
			want: []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also matched by the nodeSelector of the live Reservation pool: a node"}},
		"a node that another one of the commit selects": {
			objects: []string{fooReservation, poolReservation}, change: func(s *Set) {
				s.Live.Nodes = map[string]map[string]string{"gpu-01": {"pool": "b"}, "gpu-02": {"pool": "a"}}
			},
			want: []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-01 is also matched by the nodeSelector of Reservation pool in b.yaml:1: a node"}},
		"one that a live Reservation came to name as well": {objects: []string{fooReservation}, change: func(s *Set) {
			foo := reservation("foo", 0, "gpu-01", "gpu-02")
			s.Live.Before, s.Live.Said = map[string]*v1alpha1.Reservation{"foo": &foo}, map[string][]string{"foo": {"gpu-01", "gpu-02"}}
			s.Live.Reservations = append(s.Live.Reservations, live("zoo", "", "gpu-02"))
		}, want: []string{"warning: a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also reserved by the live Reservation zoo: a node"}},
		"one that somebody edited out, and another one took": {objects: []string{fooReservation}, change: func(s *Set) {
			foo := reservation("foo", 0, "gpu-01")
			s.Live.Before, s.Live.Said = map[string]*v1alpha1.Reservation{"foo": &foo}, map[string][]string{"foo": {"gpu-01", "gpu-02"}}
			s.Live.Reservations = append(s.Live.Reservations, live("zoo", "", "gpu-02"))
		}, want: []string{"warning: a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also reserved by the live Reservation zoo: a node"}},
		"one of a Reservation that somebody deleted, and another one took": {objects: []string{fooReservation}, change: func(s *Set) {
			s.Live.Said = map[string][]string{"foo": {"gpu-01", "gpu-02"}}
			s.Live.Reservations = append(s.Live.Reservations, live("zoo", "", "gpu-02"))
		}, want: []string{"warning: a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also reserved by the live Reservation zoo: a node"}},
		"one that somebody edited in, which Git did not say": {objects: []string{fooReservation}, change: func(s *Set) {
			foo := reservation("foo", 0, "gpu-01", "gpu-02")
			s.Live.Before, s.Live.Said = map[string]*v1alpha1.Reservation{"foo": &foo}, map[string][]string{"foo": {"gpu-01"}}
			s.Live.Reservations = append(s.Live.Reservations, live("zoo", "", "gpu-02"))
		}, want: []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also reserved by the live Reservation zoo: a node"}},
		"one that somebody edited in, of another's pool": {objects: []string{fooReservation}, change: pooled(func(s *Set) {
			foo := reservation("foo", 0, "gpu-01", "gpu-02")
			s.Live.Before, s.Live.Said = map[string]*v1alpha1.Reservation{"foo": &foo}, map[string][]string{"foo": {"gpu-01"}}
		}), want: []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also matched by the nodeSelector of the live Reservation pool: a node"}},
		"one that it had named before": {objects: []string{fooReservation}, change: pooled(func(s *Set) {
			s.Live.Said = map[string][]string{"foo": {"gpu-02"}}
		}), want: []string{"warning: a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also matched by the nodeSelector of the live Reservation pool: a node"}},
		"one that it holds itself": {objects: []string{fooReservation, poolReservation}, change: func(s *Set) {
			s.Live.Nodes = map[string]map[string]string{"gpu-01": {"pool": "b"}, "gpu-02": {"pool": "a"}}
			s.Live.Holders = map[string]string{"gpu-01": "foo"}
		}},
		"one that it gives up in the same commit": {objects: []string{fooReservation, poolReservation}, change: pooled(nil)},
		"one that it gives up in the same commit, and another pool takes": {
			objects: []string{fooReservation, poolReservation, strings.NewReplacer("name: pool", "name: rest", "pool: b", "pool: a").Replace(poolReservation)},
			change:  pooled(func(s *Set) { s.Live.Nodes["gpu-01"] = nil }),
			want:    []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also matched by the nodeSelector of Reservation rest in c.yaml:1: a node"}},
		"one that it is still giving up, back again": {objects: []string{fooReservation, poolReservation}, change: func(s *Set) {
			s.Live.Nodes = map[string]map[string]string{"gpu-01": {"pool": "b"}, "gpu-02": {"pool": "b"}}
			s.Live.Said = map[string][]string{"foo": {"gpu-02"}}
			s.Live.Holders = map[string]string{"gpu-01": "foo", "gpu-02": "foo"}
		}},
		"one that nobody has, of a younger pool of another source": {objects: []string{fooReservation}, change: pooled(func(s *Set) {
			s.Live.Holders = nil
			foo := reservation("foo", 1)
			s.Live.Before = map[string]*v1alpha1.Reservation{"foo": &foo}
		})},
		"one that nobody has, of an older pool of another source": {objects: []string{fooReservation}, change: pooled(func(s *Set) {
			s.Live.Holders = nil
			foo := reservation("foo", 5)
			s.Live.Before = map[string]*v1alpha1.Reservation{"foo": &foo}
		}), want: []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also matched by the nodeSelector of the live Reservation pool: a node"}},
		"one that nobody has, of a pool of the same commit": {objects: []string{fooReservation, poolReservation}, change: func(s *Set) {
			s.Live.Nodes = map[string]map[string]string{"gpu-01": {"pool": "b"}, "gpu-02": {}}
			foo, pool := reservation("foo", 0, "gpu-02"), reservation("pool", 5)
			s.Live.Before = map[string]*v1alpha1.Reservation{"foo": &foo, "pool": &pool}
		}, want: []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-01 is also matched by the nodeSelector of Reservation pool in b.yaml:1: a node"}},
		"one that its holder gives up, of another source's pool": {objects: []string{fooReservation}, change: pooled(func(s *Set) {
			s.Live.Nodes["gpu-01"] = nil
			s.Live.Holders["gpu-02"] = "zoo"
		}), want: []string{"a.yaml:1: Reservation foo: spec.reservedNodes: gpu-02 is also matched by the nodeSelector of the live Reservation pool: a node"}},
		"one whose holder lists its nodes": {objects: []string{fooReservation}, change: pooled(func(s *Set) {
			s.Live.Reservations[len(s.Live.Reservations)-1].Spec.ReservedNodes = []string{}
		})},
		"one whose holder is being deleted": {objects: []string{fooReservation}, change: pooled(func(s *Set) {
			s.Live.Reservations[len(s.Live.Reservations)-1].DeletionTimestamp = &metav1.Time{Time: epoch}
		})},
		"every node there is": {
			objects: []string{`{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: foo}, spec: {tenant: tenant-foo, nodeSelector: {}}}`},
			want:    []string{"warning: a.yaml:1: Reservation foo: spec.nodeSelector: is empty, so it reserves every node"}},
		"every node there is, in more words": {
			objects: []string{strings.Replace(poolReservation, "{pool: b}", "{}, matchExpressions: []", 1)},
			want:    []string{"warning: a.yaml:1: Reservation pool: spec.nodeSelector: is empty, so it reserves every node"}},
	} {
		t.Run(name, func(t *testing.T) { silence(&tc).run(t) })
	}
}

// pooled makes a set whose gpu-02 is held by a live Reservation through its selector.
func pooled(then func(*Set)) func(*Set) {
	return func(s *Set) {
		pool := live("pool", "")
		pool.CreationTimestamp = metav1.NewTime(epoch.Add(2 * time.Hour))
		pool.Spec.NodeSelector, pool.Spec.ReservedNodes = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}, nil
		s.Live.Reservations = append(s.Live.Reservations, pool)
		s.Live.Nodes = map[string]map[string]string{"gpu-01": {}, "gpu-02": {"pool": "a"}}
		s.Live.Holders = map[string]string{"gpu-02": "pool"}
		if then != nil {
			then(s)
		}
	}
}

func TestCheckOwnership(t *testing.T) {
	own := func(owner string) func(*Set) {
		return func(s *Set) {
			s.Live.Owners = map[Key]string{{Group: v1alpha1.Group, Kind: "Reservation", Name: "foo"}: owner}
		}
	}
	for name, tc := range map[string]checkCase{
		"its own":           {objects: []string{fooReservation}, change: own("tenants")},
		"another source's":  {objects: []string{fooReservation}, change: own("other"), want: []string{"a.yaml:1: Reservation foo: belongs to the source other: remove it from one"}},
		"nobody's":          {objects: []string{fooReservation}, change: own(""), want: []string{"warning: a.yaml:1: Reservation foo: exists already and belongs to no source: it is adopted"}},
		"a namespace to be": {objects: []string{fooQuota}, change: func(s *Set) { s.Live.Namespaces = map[string]string{} }, want: []string{"a.yaml:1: ResourceQuota tenant-foo/foo: metadata.namespace: the namespace tenant-foo does not exist"}},
		"a namespace of the commit": {
			objects: []string{fooQuota, fooNamespace}, change: func(s *Set) { s.Live.Namespaces = map[string]string{} }},
		"a Reservation that accepts a namespace of somebody else": {
			objects: []string{fooReservation}, change: func(s *Set) { s.Live.Namespaces["tenant-foo"] = "" },
			want: []string{"warning: a.yaml:1: Reservation foo: spec.namespaces: the namespace tenant-foo is not in this commit: whoever controls it"}},
	} {
		t.Run(name, func(t *testing.T) { silence(&tc).run(t) })
	}
}

func TestCheckBindings(t *testing.T) {
	for name, tc := range map[string]checkCase{
		"to a Reservation of the commit": {objects: []string{fooBinding, fooReservation}},
		"to a live one": {objects: []string{fooBinding}, change: func(s *Set) {
			r := live("foo", "")
			r.Spec.Namespaces = []string{"tenant-foo"}
			s.Live.Reservations = append(s.Live.Reservations, r)
		}},
		"to none": {objects: []string{fooBinding}, want: []string{
			"a.yaml:1: ReservationBinding tenant-foo/foo: spec.reservationName: Reservation foo is neither in the commit nor in the cluster"}},
		"to one that accepts other namespaces": {
			objects: []string{fooBinding, strings.Replace(fooReservation, "tenant:", "namespaces: [team-a, team-b], tenant:", 1)},
			change:  func(s *Set) { s.Live.Namespaces["team-b"] = s.Source },
			want:    []string{"a.yaml:1: ReservationBinding tenant-foo/foo: spec.reservationName: Reservation foo does not accept namespace tenant-foo; add"}},
		"by the rule that is given": {
			objects: []string{fooBinding, fooReservation}, change: func(s *Set) {
				s.Accept = func(*v1alpha1.ReservationBinding, *v1alpha1.Reservation) (bool, string, string) {
					return false, "X", "not today"
				}
			},
			want: []string{"a.yaml:1: ReservationBinding tenant-foo/foo: spec.reservationName: not today"}},
		"to one of the commit, whatever the live one accepts": {
			objects: []string{fooBinding, strings.Replace(fooReservation, "tenant:", "namespaces: [team-a], tenant:", 1)},
			change: func(s *Set) {
				r := live("foo", "")
				r.Spec.Namespaces = []string{"tenant-foo"}
				s.Live.Reservations = append(s.Live.Reservations, r)
			},
			want: []string{"a.yaml:1: ReservationBinding tenant-foo/foo: spec.reservationName: Reservation foo does not accept"}},
	} {
		t.Run(name, func(t *testing.T) { silence(&tc).run(t) })
	}
}

// What kustomize's namespace: and namePrefix: make of a consistent tenant; (iii) is kustomize's own error.
func TestCases_A11_RenamedHalf(t *testing.T) {
	reservation := `{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: r1}, spec: {tenant: alpha, namespaces: [team-a], reservedNodes: [gpu-01]}}`
	binding := `{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: ReservationBinding, metadata: {name: b1, namespace: team-a}, spec: {reservationName: r1, podSelector: {}}}`
	namespace := `{apiVersion: v1, kind: Namespace, metadata: {name: team-a}}`
	for name, tc := range map[string]checkCase{
		"as written": {objects: []string{namespace, reservation, binding}},
		"(i) namespace: ops": {
			objects: []string{strings.Replace(namespace, "team-a", "ops", 1), strings.Replace(reservation, "name: r1", "name: r1, namespace: ops", 1), binding},
			want: []string{
				"b.yaml:1: Reservation ops/r1: metadata.namespace: a Reservation is in no namespace",
				"warning: b.yaml:1: Reservation ops/r1: spec.namespaces: the namespace team-a is not in this commit"}},
		"(ii) namePrefix: stg-": {
			objects: []string{namespace, strings.Replace(reservation, "name: r1", "name: stg-r1", 1), strings.Replace(binding, "name: b1", "name: stg-b1", 1)},
			want:    []string{"c.yaml:1: ReservationBinding team-a/stg-b1: spec.reservationName: Reservation r1 is neither in the commit nor in the cluster"}},
	} {
		t.Run(name, func(t *testing.T) { tc.run(t) })
	}
}

func TestCheckSaysAllAtOnce(t *testing.T) {
	s := commit(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: tenant-foo}}`,
		strings.Replace(fooReservation, "tenant:", "tennant: x, tenant:", 1), fooReservation, strings.Replace(fooBinding, "reservationName: foo", "reservationName: bar", 1))
	findings := Check(s)
	require.True(t, render.Rejected(findings))
	var files []string
	for _, f := range findings {
		files = append(files, f.File)
	}
	require.Equal(t, []string{"a.yaml", "b.yaml", "c.yaml", "d.yaml"}, slices.Compact(files), "%s", strings.Join(text(findings), "\n"))
}

func TestCheckChangesNothing(t *testing.T) {
	s := commit(t, fooReservation, fooBinding, fooNamespace)
	before := make([]*unstructured.Unstructured, len(s.Objects))
	for i, o := range s.Objects {
		before[i] = o.DeepCopy()
	}
	Check(s)
	for i, o := range s.Objects {
		require.Equal(t, before[i], o.Unstructured)
	}
}

func TestReservations(t *testing.T) {
	s := commit(t, fooNamespace, fooReservation, fooBinding)
	got := Reservations(s.Objects)
	require.Len(t, got, 1)
	require.Equal(t, []string{"gpu-01", "gpu-02"}, got[0].Spec.ReservedNodes)
}

func TestStorableAndMentioned(t *testing.T) {
	s := commit(t, fooReservation, fooNamespace, fooQuota,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: web}}`,
		strings.Replace(fooReservation, "name: foo", "name: Foo", 1),
		strings.Replace(fooQuota, ", namespace: tenant-foo", "", 1),
		strings.Replace(fooBinding, "namespace: tenant-foo", "namespace: team-a", 1),
		`{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: bar}, spec: {tenant: T, namespaces: [team-b, tenant-foo]}}`)
	var storable []string
	for _, o := range Storable(s.Objects) {
		storable = append(storable, o.File)
	}
	require.Equal(t, []string{"a.yaml", "b.yaml", "c.yaml", "g.yaml", "h.yaml"}, storable)
	require.Equal(t, []string{"team-a", "team-b"}, Mentioned(s.Objects))
}
