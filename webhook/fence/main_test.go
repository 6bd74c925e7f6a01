package fence_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
	"github.com/reservation-operator/reservation-operator/webhook/fence"
)

const operator = v1alpha1.OperatorNamespace

var settings = fence.Settings{
	Namespace: operator, ExemptNamespaces: []string{"exempt-by-name"}, ExemptLabel: "example.com/exempt", KeepOut: true,
}

// live is the control plane that the tests share, with the fences installed; it starts with the first test that needs it.
var live struct {
	once  sync.Once
	err   error
	plane *controlplane.ControlPlane
	write client.WithWatch
	typed *kubernetes.Clientset
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if live.plane != nil {
		if err := live.plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// cluster returns a client that reads and writes live.
func cluster(t *testing.T) client.WithWatch {
	t.Helper()
	live.once.Do(func() { live.err = start() })
	require.NoError(t, live.err)
	return live.write
}

func start() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	live.plane, err = controlplane.Start(ctx, controlplane.Options{Scheduler: true, ControllerManager: true, Kubelets: true})
	if err != nil {
		return err
	}
	if live.typed, err = kubernetes.NewForConfig(live.plane.Config); err != nil {
		return err
	}
	if live.write, err = client.NewWithWatch(live.plane.Config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return err
	}
	exempt := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "exempt-by-label", Labels: map[string]string{settings.ExemptLabel: "yes"}}}
	for _, namespace := range []corev1.Namespace{named(operator), named("exempt-by-name"), exempt} {
		if err := live.write.Create(ctx, &namespace); err != nil {
			return err
		}
	}
	index := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: v1alpha1.IndexName}}
	index.Data = allocate.Index{Version: 1}.Data()
	if err := live.write.Create(ctx, &index); err != nil {
		return err
	}
	installer := &fence.Installer{Client: live.write, Settings: settings}
	if err := installer.Ensure(ctx); err != nil {
		return err
	}
	return fence.Probe{Client: live.write}.Await(ctx, 1)
}

func named(name string) corev1.Namespace {
	return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// after is a context that outlives the test, for cleaning up.
func after(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// namespace makes a namespace for one test.
func namespace(t *testing.T) string {
	t.Helper()
	object := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, cluster(t).Create(t.Context(), &object))
	return object.Name
}

// grant writes an index in which these nodes accept these namespaces (none: a releasing node), and waits until it is
// enforced. It returns the index's version.
func grant(t *testing.T, grants map[string][]string) int64 {
	t.Helper()
	index := allocate.Index{Grants: map[string]allocate.Grant{}}
	for node, namespaces := range grants {
		index.Grants[node] = allocate.Grant{Reservation: "test", Namespaces: namespaces}
	}
	return writeIndex(t, func(version int64) map[string]string {
		index.Version = version
		return index.Data()
	})
}

func writeIndex(t *testing.T, data func(version int64) map[string]string) int64 {
	t.Helper()
	c := cluster(t)
	probe := fence.Probe{Client: c}
	var version int64
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: v1alpha1.IndexName}}
	ctx, cancel := context.WithTimeout(after(t), time.Minute)
	defer cancel()
	require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(object), object))
	index, err := allocate.Parse(object.Data)
	require.NoError(t, err)
	version = index.Version + 1
	object.Data = data(version)
	require.NoError(t, c.Update(ctx, object))
	require.NoError(t, probe.Await(ctx, version))
	return version
}

// pod is one that no scheduler looks at.
func pod(namespace string, change ...func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "pod-"},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody",
			Containers:    []corev1.Container{{Name: "main", Image: "main"}},
		},
	}
	for _, f := range change {
		f(&p.Spec)
	}
	return p
}

func onNode(name string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.NodeName = name }
}

func tolerating(tolerations ...corev1.Toleration) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Tolerations = append(s.Tolerations, tolerations...) }
}

var wildcard = corev1.Toleration{Operator: corev1.TolerationOpExists}

// requireRefused wants a 403 of the policy, with this in the message.
func requireRefused(t *testing.T, err error, policy string, message ...string) {
	t.Helper()
	require.Error(t, err)
	require.True(t, apierrors.IsForbidden(err), "want Forbidden, got %v", err)
	for _, part := range append(message, "'"+policy+"'") {
		require.Contains(t, err.Error(), part)
	}
}

func eventually(t *testing.T, condition func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, condition, time.Minute, 20*time.Millisecond)
}

func typeName(object any) string { return strings.TrimSpace(reflect.TypeOf(object).String()) }
