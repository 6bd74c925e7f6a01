package apply

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// plane is the API server of all tests here, with our CRDs and the operator's namespace.
var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	controlplane.Main(m, controlplane.Options{}, func(c *controlplane.ControlPlane) {
		plane = c
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
}

func prepare() error {
	ctx := context.Background()
	if err := plane.Apply(ctx, "../../config/crd"); err != nil {
		return err
	}
	c, err := newClient(plane.Config)
	if err != nil {
		return err
	}
	return c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OperatorNamespace}})
}

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

func admin(t *testing.T) client.WithWatch {
	t.Helper()
	c, err := newClient(plane.Config)
	require.NoError(t, err)
	return c
}

// applier acts as an administrator, in whose eyes no namespace has pods.
func applier(t *testing.T) *Applier {
	c := admin(t)
	return &Applier{
		Client: c, Live: c, Namespace: v1alpha1.OperatorNamespace,
		Running: func(context.Context, string) (bool, error) { return false, nil },
	}
}

// objects reads documents of YAML; the nth is in the nth file, a.yaml, b.yaml and so on.
func objects(t *testing.T, documents ...string) []render.Object {
	t.Helper()
	var out []render.Object
	for i, document := range documents {
		o := render.Object{File: string(rune('a'+i)) + ".yaml", Line: 1, Unstructured: &unstructured.Unstructured{}}
		require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object))
		out = append(out, o)
	}
	return out
}

const (
	namespaceYAML   = `{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}`
	quotaYAML       = `{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: %[1]s}, spec: {hard: {cpu: 12000m, memory: 1024Mi}}}`
	reservationYAML = `{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: %[1]s}, spec: {tenant: %[1]s, reservedNodes: [%[1]s-1, %[1]s-2]}}`
	bindingYAML     = `{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: ReservationBinding, metadata: {name: b, namespace: %[1]s}, spec: {reservationName: %[1]s, podSelector: {}}}`
)

// tenant returns the four objects of a tenant, out of order.
func tenant(t *testing.T, name string) []render.Object {
	return objects(t, fmt.Sprintf(bindingYAML, name), fmt.Sprintf(reservationYAML, name), fmt.Sprintf(quotaYAML, name), fmt.Sprintf(namespaceYAML, name))
}

// previewed gathers and previews.
func previewed(t *testing.T, a *Applier, c Commit, objects []render.Object) *Preview {
	t.Helper()
	live, err := a.Gather(t.Context(), objects)
	require.NoError(t, err)
	p, err := a.Preview(t.Context(), c, objects, live)
	require.NoError(t, err)
	return p
}

// applied does all of it and requires that nothing was refused.
func applied(t *testing.T, a *Applier, c Commit, objects []render.Object) Result {
	t.Helper()
	p := previewed(t, a, c, objects)
	require.False(t, render.Rejected(p.Findings), p.Findings)
	return a.Apply(t.Context(), c, p)
}

func get(t *testing.T, c client.Reader, e Entry) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(groupVersionKind(e))
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: e.Namespace, Name: e.Name}, o))
	return o
}
