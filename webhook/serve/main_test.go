package serve_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

const (
	namespace = v1alpha1.OperatorNamespace
	// operatorUser has the permissions that the rbac markers of webhook/serve and webhook/fence ask for, and no others.
	operatorUser = "operator"
)

// live is the control plane that the tests share; it starts with the first test that needs it.
var live struct {
	once  sync.Once
	err   error
	plane *controlplane.ControlPlane
	admin client.WithWatch
}

// logs are all lines that the package and its libraries log, up to level 7: from 8 on, client-go writes down whole answers
// of the API server, Secrets too.
var logs logBuffer

func TestMain(m *testing.M) {
	ctrl.SetLogger(logs.logger())
	code := m.Run()
	if live.plane != nil {
		if err := live.plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// cluster returns an administrator's client that reads and writes live.
func cluster(t *testing.T) client.WithWatch {
	t.Helper()
	live.once.Do(func() { live.err = start() })
	require.NoError(t, live.err)
	return live.admin
}

func start() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	if live.plane, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		return err
	}
	if live.admin, err = client.NewWithWatch(live.plane.Config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return err
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ProbeNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.IndexName}, Data: map[string]string{"nodes": "|" + v1alpha1.ProbeNode + " |", "bound": "|", "version": "1"},
		},
	}
	roles, err := roles("*.go", "../fence/*.go")
	if err != nil {
		return err
	}
	for _, object := range append(objects, roles...) {
		if err := live.admin.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

var marker = regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:(.+)$`)

// roles are what the rbac markers in these files ask for, bound to operatorUser.
func roles(patterns ...string) ([]client.Object, error) {
	rules := map[string][]rbacv1.PolicyRule{} // by namespace, empty for all
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, match := range marker.FindAllStringSubmatch(string(text), -1) {
				where, rule := parseMarker(match[1])
				rules[where] = append(rules[where], rule)
			}
		}
	}
	var objects []client.Object
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: operatorUser}}
	for where, rules := range rules {
		name := metav1.ObjectMeta{Namespace: where, Name: "markers"}
		if where == "" {
			objects = append(objects, &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}, &rbacv1.ClusterRoleBinding{
				ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
			})
			continue
		}
		objects = append(objects, &rbacv1.Role{ObjectMeta: name, Rules: rules}, &rbacv1.RoleBinding{
			ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
		})
	}
	return objects, nil
}

func parseMarker(text string) (namespace string, rule rbacv1.PolicyRule) {
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		values := strings.Split(strings.Trim(value, `"`), ";")
		switch key {
		case "groups":
			rule.APIGroups = values
		case "resources":
			rule.Resources = values
		case "verbs":
			rule.Verbs = values
		case "resourceNames":
			rule.ResourceNames = values
		case "namespace":
			namespace = values[0]
		}
	}
	return namespace, rule
}

// logBuffer collects log lines.
type logBuffer struct {
	mutex sync.Mutex
	lines []string
}

func (b *logBuffer) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		b.lines = append(b.lines, prefix+" "+args)
	}, funcr.Options{Verbosity: 7})
}

func (b *logBuffer) text() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return strings.Join(b.lines, "\n")
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// after is a context that outlives the test, for cleaning up.
func after(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

func eventually(t *testing.T, condition func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, condition, time.Minute, 20*time.Millisecond)
}
