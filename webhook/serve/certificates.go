package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// SecretName is the Secret, in the operator's namespace, that holds the CA and the certificate.
const SecretName = "reservation-webhook-certificate"

// Keys of the Secret. The library writes them, and the CA's key under ca.key.
const (
	keyCA          = "ca.crt"
	keyCertificate = "tls.crt"
	keyPrivate     = "tls.key"
)

// retryPause is the time after which what failed is tried again, if no change of the Secret comes before.
const retryPause = 5 * time.Second

// CertificateOptions say which certificate to make and how long it lives.
type CertificateOptions struct {
	// Secret holds the CA and the certificate; its namespace is the operator's.
	Secret types.NamespacedName
	// Endpoint is where the API server finds the webhooks; it must be valid.
	Endpoint Endpoint
	// CADuration and ServerDuration are the lives of the CA and of the certificate; 0 is ten years and one year.
	CADuration, ServerDuration time.Duration
	// Lookahead is how long before its end either is renewed; 0 is 90 days.
	Lookahead time.Duration
	// ControllerName names the library's controller, which must be unique in a process. Empty: reservation-certificates.
	ControllerName string
}

// +kubebuilder:rbac:groups="",namespace=reservation-operator,resources=secrets,verbs=create;list;watch
// +kubebuilder:rbac:groups="",namespace=reservation-operator,resources=secrets,verbs=get;update,resourceNames=reservation-webhook-certificate
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,verbs=get;list;watch,resourceNames=reservation-validation
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,verbs=get;list;watch,resourceNames=reservation-pod-injection

// Certificates serve the webhooks' certificate. The library cert-controller makes and renews it on the leader, in a
// Secret; every replica watches the Secret and serves what it finds there, without a restart. A certificate of a new CA
// is served only when the live webhook configurations have that CA. All methods may be called at once from several
// goroutines.
type Certificates struct {
	options CertificateOptions
	clock   clock.Clock
	client  client.Client
	cache   cache.Cache
	wake    chan struct{}
	changed chan event.GenericEvent
	state   atomic.Pointer[state]
}

// NewCertificates returns Certificates that serve nothing until SetupWithManager was called and the manager runs.
func NewCertificates(o CertificateOptions) *Certificates {
	c := &Certificates{
		options: o,
		clock:   clock.RealClock{},
		wake:    make(chan struct{}, 1),
		changed: make(chan event.GenericEvent, 1),
	}
	c.state.Store(&state{})
	return c
}

// SetupWithManager adds the rotation, for the leader, and the watch of the Secret, for every replica.
func (c *Certificates) SetupWithManager(mgr manager.Manager) (err error) {
	if err := c.options.Endpoint.Validate(); err != nil {
		return err
	}
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	secret := named(c.options.Secret.Name)
	secret.Namespaces = map[string]cache.Config{c.options.Secret.Namespace: {}}
	c.cache, err = cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: secret,
			&admissionregistrationv1.ValidatingWebhookConfiguration{}: named(ValidatingName),
			&admissionregistrationv1.MutatingWebhookConfiguration{}:   named(MutatingName),
		},
	})
	if err != nil {
		return fmt.Errorf("watching the webhook certificate: %w", err)
	}
	c.client = mgr.GetClient()
	if err := addRotation(mgr, c.options); err != nil {
		return fmt.Errorf("setting up the rotation of the webhook certificate: %w", err)
	}
	return mgr.Add(c)
}

// NeedLeaderElection says no: every replica serves.
func (c *Certificates) NeedLeaderElection() bool { return false }

// Changed delivers an event, of no content, after each change of the Secret or of a webhook configuration; several may
// come as one. It has one reader at most, the Registrar's controller.
func (c *Certificates) Changed() <-chan event.GenericEvent { return c.changed }

// GetCertificate is for tls.Config. It is an error until there is a certificate.
func (c *Certificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := c.state.Load().served; served != nil {
		return served, nil
	}
	return nil, ErrCertificateNotReady
}

// NotAfter is the end of the served certificate's life; the zero time if none is served.
func (c *Certificates) NotAfter() time.Time {
	if served := c.state.Load().served; served != nil {
		return served.Leaf.NotAfter
	}
	return time.Time{}
}

// Ready is a check for readyz: the certificate that is served now verifies against the CA bundles of the live webhook
// configurations or, while there are none, against the CA in the Secret.
func (c *Certificates) Ready(*http.Request) error {
	state := c.state.Load()
	if state.served == nil {
		return ErrCertificateNotReady
	}
	return state.trusted(state.served, c.name(), c.clock.Now())
}

func (c *Certificates) name() string { return c.options.Endpoint.DNSNames()[0] }

// Start watches until ctx ends. The manager calls it.
func (c *Certificates) Start(ctx context.Context) error {
	stopped := make(chan error, 1)
	go func() { stopped <- c.cache.Start(ctx) }()
	for _, object := range []client.Object{
		&corev1.Secret{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
	} {
		informer, err := c.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching the webhook certificate: %w", err)
		}
		notify := func(any) { c.notify() }
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, new any) { notify(new) }, DeleteFunc: notify,
		}); err != nil {
			return fmt.Errorf("watching the webhook certificate: %w", err)
		}
	}
	if c.cache.WaitForCacheSync(ctx) {
		c.loop(ctx)
	}
	return <-stopped
}

// notify wakes the loop and whoever reads Changed; neither is waited for.
func (c *Certificates) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
	select {
	case c.changed <- event.GenericEvent{Object: &corev1.Secret{}}:
	default:
	}
}

func (c *Certificates) loop(ctx context.Context) {
	log := logf.FromContext(ctx).WithName("certificates")
	for {
		wait, err := c.refresh(ctx)
		if err != nil {
			log.Error(err, "the webhook certificate cannot be refreshed", "secret", c.options.Secret)
			wait = retryPause
		}
		var again <-chan time.Time
		if wait > 0 {
			again = c.clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-again:
		}
	}
}

// refresh serves what is to be served now, and returns after which time to look again; 0 is at the next change.
func (c *Certificates) refresh(ctx context.Context) (time.Duration, error) {
	secret := &corev1.Secret{}
	err := c.cache.Get(ctx, c.options.Secret, secret)
	if apierrors.IsNotFound(err) {
		return 0, c.createSecret(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the Secret: %w", err)
	}
	if len(secret.Data[keyCertificate]) == 0 || len(secret.Data[keyPrivate]) == 0 {
		return 0, nil // The leader fills it.
	}
	offered, err := tls.X509KeyPair(secret.Data[keyCertificate], secret.Data[keyPrivate])
	if err != nil {
		return 0, fmt.Errorf("reading the Secret: %w", err)
	}
	bundles, err := c.liveBundles(ctx)
	if err != nil {
		return 0, err
	}
	next, wait := c.state.Load().next(&offered, secret.Data[keyCA], bundles, c.name(), c.clock.Now())
	c.state.Store(next)
	return wait, nil
}

// createSecret makes the Secret that the library wants to find. Whichever replica comes first does it; the others find
// it there.
func (c *Certificates) createSecret(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: meta(c.options.Secret.Name)}
	secret.Namespace = c.options.Secret.Namespace
	err := c.client.Create(ctx, secret, client.FieldOwner(v1alpha1.FieldManager))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the Secret: %w", err)
	}
	return nil
}

// liveBundles are the CA bundles by which API servers verify this server.
func (c *Certificates) liveBundles(ctx context.Context) ([][]byte, error) {
	validating, mutating := &admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := errors.Join(
		client.IgnoreNotFound(c.cache.Get(ctx, client.ObjectKey{Name: ValidatingName}, validating)),
		client.IgnoreNotFound(c.cache.Get(ctx, client.ObjectKey{Name: MutatingName}, mutating)))
	if err != nil {
		return nil, fmt.Errorf("reading the webhook configurations: %w", err)
	}
	return bundlesOf(mutating, validating), nil
}
