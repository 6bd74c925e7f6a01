package serve

import (
	"crypto/tls"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// settle is the time between seeing that the configurations have a new CA and serving its certificate: API servers
// see the configurations by a watch of their own, each a little earlier or later.
const settle = 2 * time.Second

// state is what a replica serves, and by what it is trusted, at one moment. It is a value: next makes a new one.
type state struct {
	// served is the certificate in use; nil is none.
	served *tls.Certificate
	// offered is the one in the Secret, trusted by every live bundle since then; the zero time is not trusted.
	offered *tls.Certificate
	since   time.Time
	// ca is the CA in the Secret, bundles those of the live webhook configurations.
	ca      []byte
	bundles [][]byte
}

// next is the state after a look at the Secret and the configurations, and the time after which to look again if
// nothing changes; 0 is never.
func (s *state) next(offered *tls.Certificate, ca []byte, bundles [][]byte, name string, now time.Time) (*state, time.Duration) {
	next := &state{served: s.served, offered: offered, ca: ca, bundles: bundles}
	switch {
	case s.served == nil, len(bundles) == 0, next.trusted(s.served, name, now) != nil:
		next.served = offered // There is nothing to lose.
		return next, 0
	case offered.Leaf.Equal(s.served.Leaf), next.trusted(offered, name, now) != nil:
		return next, 0
	}
	next.since = now
	if s.offered != nil && s.offered.Leaf.Equal(offered.Leaf) && !s.since.IsZero() {
		next.since = s.since
	}
	if wait := settle - now.Sub(next.since); wait > 0 {
		return next, wait
	}
	next.served = offered
	return next, 0
}

// trusted says why a server with this certificate would not be trusted by all who call it; nil if it is.
func (s *state) trusted(pair *tls.Certificate, name string, now time.Time) error {
	bundles := s.bundles
	if len(bundles) == 0 {
		bundles = [][]byte{s.ca}
	}
	for _, bundle := range bundles {
		if err := verify(pair.Leaf, bundle, name, now); err != nil {
			return err
		}
	}
	return nil
}

// bundlesOf returns the CA bundle of each webhook that has one.
func bundlesOf(mutating *admissionregistrationv1.MutatingWebhookConfiguration, validating *admissionregistrationv1.ValidatingWebhookConfiguration) [][]byte {
	var bundles [][]byte
	for _, hook := range mutating.Webhooks {
		bundles = append(bundles, hook.ClientConfig.CABundle)
	}
	for _, hook := range validating.Webhooks {
		bundles = append(bundles, hook.ClientConfig.CABundle)
	}
	return bundles
}
