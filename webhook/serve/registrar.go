package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// ErrCertificateNotReady means that there is no CA or certificate yet. It passes by itself within seconds of the start
// of a leader that may write the Secret.
var ErrCertificateNotReady = errors.New("the webhook certificate is not ready")

// Fence installs the admission policies; fence.Installer is one.
type Fence interface {
	// Ensure makes the live policies those that are wanted.
	Ensure(ctx context.Context) error
	// Kinds returns an empty object of each kind that Ensure writes and that is to be watched.
	Kinds() []client.Object
}

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,verbs=get;update,resourceNames=reservation-validation
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,verbs=get;update,resourceNames=reservation-pod-injection
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings;mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=list;watch

// Registrar keeps the webhook configurations, and the fences in step with them, equal to what the namespaces with
// accepted bindings ask for. Its methods may be called at once from several goroutines.
type Registrar struct {
	// Client reads live, not through a cache, where a stale read would repeat a write.
	Client client.Client
	// Fence installs the admission policies.
	Fence Fence
	// Endpoint is where the API server finds the webhooks.
	Endpoint Endpoint
	// Secret holds the CA; its namespace is the operator's.
	Secret types.NamespacedName
	// Clock tells the time. Nil: the real one.
	Clock clock.PassiveClock

	mutex sync.Mutex
	bound []string // what Ensure was called with last
	known bool     // whether it was
}

// Ensure registers injection for exactly the bound namespaces, in any order, and keeps the fences in place.
// kube-system and the operator's own namespace are never registered. Where all is as it should be it only reads.
//
// On ErrCertificateNotReady the fences are in place and namespaces that were registered before stay so; nothing new is
// registered. Any error leaves everything at least as closed as before, and calling again goes on.
func (r *Registrar) Ensure(ctx context.Context, bound []string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.bound, r.known = slices.Clone(bound), true
	return r.ensure(ctx, bound)
}

// Repair is Ensure for the namespaces that it was called with last or, before it was, for those that are registered
// now: what a restart finds stays until somebody knows better.
func (r *Registrar) Repair(ctx context.Context) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	bound := r.bound
	if !r.known {
		mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := r.get(ctx, MutatingName, mutating); err != nil {
			return err
		}
		bound = registered(mutating)
	}
	return r.ensure(ctx, bound)
}

func (r *Registrar) ensure(ctx context.Context, bound []string) error {
	bound = slices.DeleteFunc(sorted(bound), func(name string) bool { return slices.Contains(r.never(), name) })
	// First the fences, whatever is wrong with the certificate.
	if err := r.Fence.Ensure(ctx); err != nil {
		return err
	}
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := errors.Join(r.get(ctx, MutatingName, mutating), r.get(ctx, ValidatingName, validating)); err != nil {
		return err
	}
	ca, err := r.bundle(ctx, mutating, validating)
	if err != nil {
		return err
	}
	if err := r.write(ctx, mutating, Mutating(r.Endpoint, ca, bound)); err != nil {
		return err
	}
	return r.write(ctx, validating, Validating(r.Endpoint, ca, r.never()))
}

// never are the namespaces in which nothing is injected, so that a cluster can always come up.
func (r *Registrar) never() []string { return []string{metav1.NamespaceSystem, r.Secret.Namespace} }

// bundle is the CA bundle to register: the Secret's CA, and while that is new those registered before it.
func (r *Registrar) bundle(ctx context.Context, mutating *admissionregistrationv1.MutatingWebhookConfiguration, validating *admissionregistrationv1.ValidatingWebhookConfiguration) ([]byte, error) {
	secret := &corev1.Secret{}
	if err := r.Client.Get(ctx, r.Secret, secret); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: there is no Secret %s", ErrCertificateNotReady, r.Secret)
	} else if err != nil {
		return nil, fmt.Errorf("reading the webhook certificate: %w", err)
	}
	var clk clock.PassiveClock = clock.RealClock{}
	if r.Clock != nil {
		clk = r.Clock
	}
	ca, err := bundle(secret.Data[keyCA], slices.Concat(bundlesOf(mutating, validating)...), clk.Now())
	if err != nil {
		return nil, fmt.Errorf("%w: Secret %s: %w", ErrCertificateNotReady, r.Secret, err)
	}
	return ca, nil
}

// get reads an object that may not be there; then it stays empty.
func (r *Registrar) get(ctx context.Context, name string, object client.Object) error {
	if err := client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Name: name}, object)); err != nil {
		return fmt.Errorf("reading the webhook configuration %s: %w", name, err)
	}
	return nil
}

// write makes live, as it was read, what is wanted, if it is not already. It replaces the whole list of webhooks, where
// server-side apply would leave in place what somebody else added.
func (r *Registrar) write(ctx context.Context, live, want client.Object) error {
	corrected := live.DeepCopyObject().(client.Object)
	switch want := want.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		corrected.(*admissionregistrationv1.MutatingWebhookConfiguration).Webhooks = want.Webhooks
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		corrected.(*admissionregistrationv1.ValidatingWebhookConfiguration).Webhooks = want.Webhooks
	}
	labels := maps.Clone(live.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, want.GetLabels())
	corrected.SetLabels(labels)

	var err error
	switch owner := client.FieldOwner(v1alpha1.FieldManager); {
	case live.GetResourceVersion() == "":
		err = r.Client.Create(ctx, want, owner)
	case !equality.Semantic.DeepEqual(live, corrected):
		err = r.Client.Update(ctx, corrected, owner)
	}
	if err != nil {
		return fmt.Errorf("registering %s: %w", want.GetName(), err)
	}
	return nil
}
