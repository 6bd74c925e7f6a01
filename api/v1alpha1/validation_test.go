package v1alpha1_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// api talks to an API server that has only the CRDs: what is refused here is refused by them.
var api client.Client

func TestMain(m *testing.M) {
	log.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	controlplane.Main(m, controlplane.Options{}, func(c *controlplane.ControlPlane) {
		if err := prepare(context.Background(), c); err != nil {
			panic(err)
		}
	})
}

func prepare(ctx context.Context, c *controlplane.ControlPlane) (err error) {
	if err := c.Apply(ctx, root("config", "crd")); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"); err != nil {
		return err
	}
	scheme := k8sruntime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	if api, err = client.New(c.Config, client.Options{Scheme: scheme, FieldValidation: metav1.FieldValidationStrict}); err != nil {
		return err
	}
	return api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-foo"}})
}

func root(elements ...string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(append([]string{filepath.Dir(file), "..", ".."}, elements...)...)
}

// object is one of a kind with a spec in YAML, its name made by the API server.
func object(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	fields := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(spec), &fields))
	o.Object["spec"] = fields
	o.SetAPIVersion(v1alpha1.GroupVersion.String())
	o.SetKind(kind)
	o.SetGenerateName("valid-")
	if kind == "ReservationBinding" {
		o.SetNamespace("tenant-foo")
	}
	return o
}

// answer is a spec and what the API server says to it; empty: it accepts.
type answer struct {
	spec string
	want string
}

func ask(t *testing.T, kind string, answers map[string]answer) {
	t.Helper()
	for name, tc := range answers {
		t.Run(name, func(t *testing.T) {
			err := api.Create(t.Context(), object(t, kind, tc.spec), client.DryRunAll)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestReservationIsValidated(t *testing.T) {
	named := func(nodes ...string) string {
		return "{tenant: foo, reservedNodes: [" + strings.Join(nodes, ", ") + "]}"
	}
	with := func(field string) string { return "{tenant: foo, reservedNodes: [gpu-01], " + field + "}" }
	tenant := func(name string) string { return fmt.Sprintf("{tenant: %q, reservedNodes: [gpu-01]}", name) }
	ask(t, "Reservation", map[string]answer{
		"names":                              {named("gpu-01", "gpu-02"), ""},
		"a selector":                         {"{tenant: foo, nodeSelector: {matchLabels: {pool: a}}}", ""},
		"both":                               {"{tenant: foo, nodeSelector: {matchLabels: {pool: a}}, reservedNodes: [gpu-01]}", ""},
		"an empty list reserves nothing":     {named(), ""},
		"neither selector nor names":         {"{tenant: foo}", "at least one of nodeSelector and reservedNodes is required"},
		"no tenant":                          {"{reservedNodes: [gpu-01]}", "spec.tenant: Required value"},
		"an empty tenant":                    {tenant(""), "spec.tenant: Invalid value"},
		"a tenant of 63 characters":          {tenant(strings.Repeat("a", 63)), ""},
		"a tenant of 64 characters":          {tenant(strings.Repeat("a", 64)), "Too long"},
		"a tenant with a blank":              {tenant("tenant foo"), "must be a valid label value"},
		"a tenant that ends with a dash":     {tenant("foo-"), "must be a valid label value"},
		"a tenant with a slash":              {tenant("foo/bar"), "must be a valid label value"},
		"a tenant with dots and capitals":    {tenant("Foo.bar_1"), ""},
		"a numeric tenant":                   {tenant("42"), "must not be purely numeric"},
		"a tenant that begins with a number": {tenant("42nd"), ""},
		"a node twice":                       {named("gpu-01", "gpu-01"), "Duplicate value"},
		"an empty node name":                 {named(`""`), "spec.reservedNodes[0]"},
		"a node name with capitals":          {named("GPU-01"), "spec.reservedNodes[0]"},
		"a node name with dots":              {named("gpu-01.rack-a.example.com"), ""},
		"a node name of 254 characters":      {named(strings.Repeat("a", 254)), "spec.reservedNodes[0]"},
		"no taint":                           {with("applyTaint: false"), ""},
		"NoExecute":                          {with("taintEffect: NoExecute"), ""},
		"PreferNoSchedule":                   {with("taintEffect: PreferNoSchedule"), ""},
		"an effect that does not exist":      {with("taintEffect: Never"), `Unsupported value: "Never"`},
		"eviction":                           {with("evictOnRelease: true"), ""},
		"evictAfter":                         {with("evictAfter: 24h"), ""},
		"evictAfter of nothing":              {with("evictAfter: 0s"), "must be a positive duration"},
		"evictAfter below nothing":           {with("evictAfter: -1m"), "must be a positive duration"},
		"evictGracePeriod":                   {with("evictGracePeriod: 30s"), ""},
		"evictGracePeriod below a second":    {with("evictGracePeriod: 999ms"), "must be at least 1s"},
		"deleteAfter":                        {with("deleteAfter: 48h"), ""},
		"deleteAfter at evictAfter":          {with("evictAfter: 48h, deleteAfter: 48h"), ""},
		"deleteAfter before evictAfter":      {with("evictAfter: 49h, deleteAfter: 48h"), "spec.deleteAfter: Invalid value"},
		"deleteAfter below nothing":          {with("deleteAfter: -1h"), "must be a positive duration"},
		"namespaces":                         {with("namespaces: [foo-train, foo-serve]"), ""},
		"no namespace in the list":           {with("namespaces: []"), "spec.namespaces"},
		"a namespace twice":                  {with("namespaces: [foo, foo]"), "Duplicate value"},
		"a namespace that cannot exist":      {with("namespaces: [foo.bar]"), "spec.namespaces[0]"},
		"a field that does not exist":        {with("evictOnRelaese: true"), `unknown field "spec.evictOnRelaese"`},
		"a list of numbers":                  {named("1", "2"), "spec.reservedNodes[0]"},
	})
}

func TestReservationBindingIsValidated(t *testing.T) {
	with := func(field string) string { return "{reservationName: foo, podSelector: {}, " + field + "}" }
	ask(t, "ReservationBinding", map[string]answer{
		"every pod":                        {"{reservationName: foo, podSelector: {}}", ""},
		"some pods":                        {"{reservationName: foo, podSelector: {matchLabels: {app: a}}}", ""},
		"no selector":                      {"{reservationName: foo}", "spec.podSelector: Required value"},
		"no Reservation":                   {"{podSelector: {}}", "spec.reservationName: Required value"},
		"an empty name":                    {`{reservationName: "", podSelector: {}}`, "spec.reservationName"},
		"neither injection":                {with("injectAffinity: false, injectToleration: false"), ""},
		"the tenant's nodes":               {with("scope: Tenant"), ""},
		"one Reservation's nodes":          {with("scope: Reservation"), "not supported yet"},
		"a scope that does not exist":      {with("scope: Cluster"), `Unsupported value: "Cluster"`},
		"a field that does not exist":      {with("injectTolerations: true"), `unknown field "spec.injectTolerations"`},
		"a selector with a typing mistake": {"{reservationName: foo, podSelector: {matchLabel: {a: b}}}", "unknown field"},
	})
}

func TestReservationSourceIsValidated(t *testing.T) {
	url := func(url string) string { return fmt.Sprintf("{url: %q}", url) }
	with := func(field string) string { return "{url: https://git.example.com/t.git, " + field + "}" }
	path := func(path string) string { return with(fmt.Sprintf("path: %q", path)) }
	const unsupported = "not supported yet"
	ask(t, "ReservationSource", map[string]answer{
		"https":                         {url("https://git.example.com/tenants.git"), ""},
		"http":                          {url("http://git.example.com/tenants.git"), ""},
		"ssh":                           {url("ssh://git@git.example.com:2222/tenants.git"), ""},
		"scp":                           {url("git@git.example.com:platform/tenants.git"), ""},
		"a file URL":                    {url("file:///srv/tenants.git"), ""},
		"a folder":                      {url("/srv/tenants.git"), ""},
		"no URL":                        {"{}", "spec.url: Required value"},
		"an empty URL":                  {url(""), "spec.url"},
		"a relative path":               {url("tenants.git"), "must begin with https://"},
		"another scheme":                {url("ftp://git.example.com/tenants.git"), "must begin with https://"},
		"a helper of git's":             {url("ext::sh -c id"), "must begin with https://"},
		"a password":                    {url("https://user:secret@git.example.com/t.git"), "must not contain credentials"},
		"a token":                       {url("https://token@git.example.com/t.git"), "must not contain credentials"},
		"a URL of 2049 characters":      {url("https://" + strings.Repeat("a", 2041)), "spec.url"},
		"a branch":                      {with("ref: {branch: main}"), ""},
		"a tag":                         {with("ref: {tag: v1}"), unsupported},
		"a range of versions":           {with(`ref: {semver: ">=1"}`), unsupported},
		"a name":                        {with("ref: {name: refs/heads/main}"), unsupported},
		"a commit":                      {with("ref: {commit: 0123456789abcdef}"), unsupported},
		"a folder of the repository":    {path("clusters/a/tenants"), ""},
		"a path from the root":          {path("/tenants"), "must be a path inside the repository"},
		"a path that leads out":         {path("../tenants"), "must be a path inside the repository"},
		"a path that leads out late":    {path("tenants/../../b"), "must be a path inside the repository"},
		"two dots in a name":            {path("a..b"), ""},
		"an interval":                   {with("interval: 500ms"), ""},
		"an interval that is too short": {with("interval: 499ms"), "must be a duration of at least 500ms"},
		"no interval":                   {with("interval: 0s"), "must be a duration of at least 500ms"},
		"a timeout":                     {with("timeout: 5s"), ""},
		"a timeout of nothing":          {with("timeout: 0s"), "must be a positive duration"},
		"a timeout below nothing":       {with("timeout: -5s"), "must be a positive duration"},
		"a Secret":                      {with("secretRef: {name: git}"), ""},
		"a Secret without a name":       {with("secretRef: {}"), "spec.secretRef.name: Required value"},
		"suspended, unpruned, empty":    {with("suspend: true, prune: false, allowEmpty: true"), ""},
		"Orphan":                        {with("deletionPolicy: Orphan"), ""},
		"Release":                       {with("deletionPolicy: Release"), unsupported},
		"another policy":                {with("deletionPolicy: Keep"), `Unsupported value: "Keep"`},
		"verification":                  {with("verify: {secretRef: {name: keys}}"), unsupported},
		"a guard, in numbers":           {with("maxReleasedNodes: 3"), unsupported},
		"a guard, in percent":           {with(`maxReleasedNodes: "10%"`), unsupported},
		"a commit status":               {with("commitStatus: {provider: github, secretRef: {name: forge}}"), unsupported},
		"pull requests":                 {with("pullRequests: {allowForks: false}"), unsupported},
		"a field that does not exist":   {with("branch: main"), `unknown field "spec.branch"`},
	})
}

func TestTenantIsImmutable(t *testing.T) {
	o := object(t, "Reservation", "{tenant: foo, reservedNodes: [gpu-01]}")
	require.NoError(t, api.Create(t.Context(), o))
	t.Cleanup(func() { _ = api.Delete(context.Background(), o) })

	same := o.DeepCopy()
	require.NoError(t, unstructured.SetNestedStringSlice(same.Object, []string{"gpu-02"}, "spec", "reservedNodes"))
	require.NoError(t, api.Update(t.Context(), same))
	require.NoError(t, unstructured.SetNestedField(same.Object, "bar", "spec", "tenant"))
	require.ErrorContains(t, api.Update(t.Context(), same), "is immutable; make a new Reservation for another tenant")
}

// create makes an object from a spec for good and reads it back into its type.
func create[T client.Object](t *testing.T, kind, spec string, into T) T {
	t.Helper()
	o := object(t, kind, spec)
	require.NoError(t, api.Create(t.Context(), o))
	t.Cleanup(func() { _ = api.Delete(context.Background(), o) })
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(o), into))
	return into
}

func TestDefaults(t *testing.T) {
	r := create(t, "Reservation", "{tenant: foo, reservedNodes: []}", &v1alpha1.Reservation{})
	require.NotNil(t, r.Spec.ApplyTaint)
	require.True(t, *r.Spec.ApplyTaint)
	require.Equal(t, corev1.TaintEffectNoSchedule, r.Spec.TaintEffect)
	require.False(t, r.Spec.EvictOnRelease)
	require.NotNil(t, r.Spec.ReservedNodes, "an empty list is not the same as none")
	require.Equal(t, []string{"foo"}, r.AcceptedNamespaces())

	b := create(t, "ReservationBinding", "{reservationName: foo, podSelector: {}}", &v1alpha1.ReservationBinding{})
	require.True(t, *b.Spec.InjectAffinity)
	require.True(t, *b.Spec.InjectToleration)
	require.Equal(t, v1alpha1.ScopeTenant, b.Spec.Scope)
	require.NotNil(t, b.Spec.PodSelector)

	s := create(t, "ReservationSource", "{url: /srv/tenants.git}", &v1alpha1.ReservationSource{})
	require.Equal(t, "1m0s", s.Spec.Interval.Duration.String())
	require.Equal(t, "1m0s", s.Spec.Timeout.Duration.String())
	require.True(t, *s.Spec.Prune)
	require.Equal(t, v1alpha1.DeletionOrphan, s.Spec.DeletionPolicy)
	require.False(t, s.Spec.AllowEmpty)
}

// TestThePagesExamplesAreAcceptedAsTheyStand reads them from config/samples, where they stand verbatim (spec.md).
func TestThePagesExamplesAreAcceptedAsTheyStand(t *testing.T) {
	for file, want := range map[string]string{
		"reservation.yaml": `apiVersion: scheduling.coreweave.cloud/v1alpha1
kind: Reservation
metadata:
  name: tenant-foo-reservation
spec:
  tenant: tenant-foo
  nodeSelector:
    matchLabels:
      hardware-pool: gpu-h100-rack-a
  reservedNodes:
    - gpu-01
    - gpu-02
    - gpu-03
    - gpu-04
  applyTaint: true
  taintEffect: NoSchedule
`,
		"reservationbinding.yaml": `apiVersion: scheduling.coreweave.cloud/v1alpha1
kind: ReservationBinding
metadata:
  name: tenant-foo-binding
  namespace: tenant-foo
spec:
  reservationName: tenant-foo-reservation
  podSelector:
    matchLabels:
      app.kubernetes.io/managed-by: tenant-foo
  injectAffinity: true
  injectToleration: true
`,
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(root("config", "samples", file))
			require.NoError(t, err)
			require.Equal(t, want, string(text))
			o := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal(text, &o.Object))
			require.NoError(t, api.Create(t.Context(), o, client.DryRunAll))
		})
	}
}
