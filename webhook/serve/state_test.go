package serve

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"github.com/stretchr/testify/require"
)

// authority is a CA of the library, made at a time.
type authority struct {
	t    *testing.T
	made time.Time
	*rotator.KeyPairArtifacts
}

var library = rotator.CertRotator{
	CAName: "ca", CAOrganization: "test", DNSName: "localhost", ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
}

func newAuthority(t *testing.T, made time.Time) authority {
	t.Helper()
	artifacts, err := library.CreateCACert(made.Add(-backdated), made.Add(10*24*time.Hour))
	require.NoError(t, err)
	return authority{t, made, artifacts}
}

func (a authority) server(life time.Duration) *tls.Certificate {
	a.t.Helper()
	certificate, key, err := library.CreateCertPEM(a.KeyPairArtifacts, a.made.Add(-backdated), a.made.Add(life))
	require.NoError(a.t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(a.t, err)
	return &pair
}

func TestBundle(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	old, before, current := newAuthority(t, now.Add(-20*24*time.Hour)), newAuthority(t, now.Add(-5*24*time.Hour)), newAuthority(t, now)
	join := func(all ...authority) (text []byte) {
		for _, a := range all {
			text = append(text, a.CertPEM...)
		}
		return text
	}
	tests := map[string]struct {
		ca, registered []byte
		at             time.Time
		want           []byte
	}{
		"nothing registered yet":          {join(current), nil, now, join(current)},
		"the same":                        {join(current), join(current), now, join(current)},
		"a new one stands first":          {join(current), join(before), now, join(current, before)},
		"and stays so":                    {join(current), join(current, before), now.Add(59 * time.Minute), join(current, before)},
		"until everybody has seen it":     {join(current), join(current, before), now.Add(61 * time.Minute), join(current)},
		"one that has expired goes":       {join(current), join(before, old), now, join(current, before)},
		"what cannot be read goes":        {join(current), []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), now, join(current)},
		"each once":                       {join(current), join(before, before, current), now, join(current, before)},
		"only the first of the Secret's":  {join(current, old), nil, now, join(current)},
		"a private key is not registered": {append(join(current), current.KeyPEM...), before.KeyPEM, now, join(current)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := bundle(test.ca, test.registered, test.at)
			require.NoError(t, err)
			require.Equal(t, string(test.want), string(got))
			again, err := bundle(test.ca, got, test.at)
			require.NoError(t, err)
			require.Equal(t, string(got), string(again))
		})
	}
	_, err := bundle(nil, join(before), now)
	require.Error(t, err)
	_, err = bundle(current.KeyPEM, nil, now)
	require.Error(t, err)
}

func TestWhichCertificateIsServed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a, b := newAuthority(t, now), newAuthority(t, now)
	long, renewed, short, other := a.server(9*24*time.Hour), a.server(9*24*time.Hour), a.server(time.Hour), b.server(9*24*time.Hour)
	onlyA, both := [][]byte{a.CertPEM, a.CertPEM}, [][]byte{append(b.CertPEM[:len(b.CertPEM):len(b.CertPEM)], a.CertPEM...), append(a.CertPEM[:len(a.CertPEM):len(a.CertPEM)], b.CertPEM...)}
	half := [][]byte{both[0], a.CertPEM}
	tests := map[string]struct {
		before   state
		offered  *tls.Certificate
		bundles  [][]byte
		at       time.Time
		want     *tls.Certificate
		wantWait time.Duration
	}{
		"the first, trusted or not":             {state{}, other, onlyA, now, other, 0},
		"the same again":                        {state{served: long}, long, onlyA, now, long, 0},
		"another while nobody calls":            {state{served: long}, other, nil, now, other, 0},
		"of a CA that is not registered":        {state{served: long}, other, onlyA, now, long, 0},
		"of a CA that one configuration lacks":  {state{served: long}, other, half, now, long, 0},
		"just registered":                       {state{served: long}, other, both, now, long, settle},
		"registered for a second":               {state{served: long, offered: other, since: now.Add(-time.Second)}, other, both, now, long, settle - time.Second},
		"registered for long enough":            {state{served: long, offered: other, since: now.Add(-settle)}, other, both, now, other, 0},
		"a third, before the second was served": {state{served: long, offered: renewed, since: now.Add(-settle)}, other, both, now, long, settle},
		"renewed by the same CA":                {state{served: long}, renewed, onlyA, now, long, settle},
		"the served one has expired":            {state{served: short}, other, onlyA, now.Add(2 * time.Hour), other, 0},
		"the served one is trusted no longer":   {state{served: other}, long, onlyA, now, long, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, wait := test.before.next(test.offered, a.CertPEM, test.bundles, "localhost", test.at)
			require.True(t, got.served == test.want, "another certificate")
			require.Equal(t, test.wantWait, wait)
		})
	}
}

func TestReadyMeansTrusted(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a, b := newAuthority(t, now), newAuthority(t, now)
	pair := a.server(time.Hour)
	tests := map[string]struct {
		state state
		name  string
		at    time.Time
		want  string
	}{
		"by every configuration":                  {state{ca: b.CertPEM, bundles: [][]byte{a.CertPEM, a.CertPEM}}, "localhost", now, ""},
		"by the Secret's CA while there are none": {state{ca: a.CertPEM}, "localhost", now, ""},
		"not by one of them":                      {state{ca: a.CertPEM, bundles: [][]byte{a.CertPEM, b.CertPEM}}, "localhost", now, "unknown authority"},
		"by none":                                 {state{ca: b.CertPEM}, "localhost", now, "unknown authority"},
		"under another name":                      {state{ca: a.CertPEM}, "example.com", now, "example.com"},
		"no longer":                               {state{ca: a.CertPEM}, "localhost", now.Add(2 * time.Hour), "expired"},
		"without a CA":                            {state{}, "localhost", now, "unknown authority"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.state.trusted(pair, test.name, test.at)
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
		})
	}
}
