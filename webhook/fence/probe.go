package fence

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// ErrNotEnforced means that the API server let through what a fence must refuse: its policy or binding is missing,
// changed, or not in force yet.
var ErrNotEnforced = errors.New("the fence does not stand")

// probeServiceAccount is the service account of the probe's pods. It is not the default one, which a controller makes
// some time after the namespace: without a service account no pod comes as far as the fence.
const probeServiceAccount = "reservation-fence-probe"

// Await asks this often: at first, and at most.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = 100 * time.Millisecond
)

// indexVersionInRefusal finds the version at the end of the message that nodeFence makes.
var indexVersionInRefusal = regexp.MustCompile(`\(reservation index ([0-9]+)\)$`)

// +kubebuilder:rbac:groups="",namespace=reservation-fence-probe,resources=pods;pods/binding,verbs=create

// Probe asks the API server which index its fences enforce, by requests that they must refuse: a pod with spec.nodeName,
// and a bind, both for the node that accepts nobody, both as dry runs in a namespace of their own. The answer is that of
// the API server behind this one request. Its methods may be called at once from several goroutines.
type Probe struct {
	// Client sends the requests.
	Client client.Client
	// Clock paces Await. Nil: the real one.
	Clock clock.Clock
}

// Version returns the version of the index that the API server enforces: of the two fences the lower. The error is
// ErrNotEnforced if one of them let its request through. Any other error means that the answer is not known: the probe's
// namespace or service account is missing, the index is, permissions are, or the API server does not answer.
func (p Probe) Version(ctx context.Context) (int64, error) {
	pod := probePod()
	pods, err := enforced(PodsName, p.Client.Create(ctx, pod, client.DryRunAll))
	if err != nil {
		return 0, err
	}
	bind := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: v1alpha1.ProbeNode}}
	err = p.Client.SubResource("binding").Create(ctx, probePod(), bind, client.DryRunAll)
	if isPodNotFound(err) {
		err = nil // The fence let it through as far as the pod, which does not exist.
	}
	bindings, err := enforced(BindingsName, err)
	if err != nil {
		return 0, err
	}
	return min(pods, bindings), nil
}

// Await blocks until the API server enforces this version of the index or a later one, or until ctx ends. It asks at
// once, then after 5 ms, then in growing steps up to 100 ms. The error wraps ctx's and what the last answer was.
func (p Probe) Await(ctx context.Context, version int64) error {
	var clk clock.Clock = clock.RealClock{}
	if p.Clock != nil {
		clk = p.Clock
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		enforced, err := p.Version(ctx)
		if err == nil && enforced >= version {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("index %d is enforced still", enforced)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until index %d is enforced: %w: %w", version, ctx.Err(), err)
		case <-clk.After(pause):
		}
	}
}

// enforced reads the version from the answer to a request that the fence must refuse.
func enforced(fence string, answer error) (int64, error) {
	if answer == nil {
		return 0, fmt.Errorf("%w: %s let a request for a reserved node through", ErrNotEnforced, fence)
	}
	match := indexVersionInRefusal.FindStringSubmatch(answer.Error())
	if match == nil || !apierrors.IsForbidden(answer) {
		return 0, fmt.Errorf("probing %s: %w", fence, answer)
	}
	version, err := strconv.ParseInt(match[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("probing %s: %w", fence, err)
	}
	return version, nil
}

// isPodNotFound tells a missing pod from a missing namespace.
func isPodNotFound(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil &&
		schema.GroupResource{Group: status.Status().Details.Group, Resource: status.Status().Details.Kind} ==
			schema.GroupResource{Resource: "pods"}
}

// probePod is as harmless as a pod can be, so that no other admission refuses it before the fence: it meets the
// restricted pod security standard.
func probePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProbeNamespace, Name: "reservation-fence-probe"},
		Spec: corev1.PodSpec{
			NodeName:                     v1alpha1.ProbeNode,
			ServiceAccountName:           probeServiceAccount,
			AutomountServiceAccountToken: ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   ptr.To(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name:  "none",
				Image: "none",
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}
