package serve

import (
	"errors"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// addRotation adds the library that makes and renews CA and certificate in the Secret. It runs on the leader alone: it
// looks when the Secret changes (an empty one is filled, a removed key made anew) and when the cache resyncs, every ten
// hours or so. It is given no webhooks to patch: the Registrar sets the CA bundles, all of them in one go.
func addRotation(mgr manager.Manager, o CertificateOptions) error {
	names := o.Endpoint.DNSNames()
	if o.ControllerName == "" {
		o.ControllerName = "reservation-certificates"
	}
	controller := &controllerOnly{Manager: mgr}
	err := rotator.AddRotator(controller, &rotator.CertRotator{
		SecretKey:             o.Secret,
		CAName:                "reservation-operator-ca",
		CAOrganization:        v1alpha1.FieldManager,
		DNSName:               names[0],
		ExtraDNSNames:         names[1:],
		IsReady:               make(chan struct{}),
		RequireLeaderElection: true,
		CaCertDuration:        o.CADuration,
		ServerCertDuration:    o.ServerDuration,
		LookaheadInterval:     o.Lookahead,
		FieldOwner:            v1alpha1.FieldManager,
		ControllerName:        o.ControllerName,
	})
	if err == nil && !controller.left {
		err = errors.New("cert-controller no longer adds its rotator to the manager")
	}
	return err
}

// controllerOnly is a manager that takes everything from the library but its rotator. What the rotator does is done by
// the library's controller too; beyond it, it waits for the certificate to be mounted as a file, which ours never is,
// and ends the process if that, or a first write of the Secret, takes too long. Locks on nodes must not depend on that.
type controllerOnly struct {
	manager.Manager
	left bool
}

// Add implements manager.Manager.
func (m *controllerOnly) Add(runnable manager.Runnable) error {
	if _, ok := runnable.(*rotator.CertRotator); ok {
		m.left = true
		return nil
	}
	return m.Manager.Add(runnable)
}
