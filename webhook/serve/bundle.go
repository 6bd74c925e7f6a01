package serve

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// overlap is for how long after its making a new CA is registered together with those before it, so that servers that
// still use an older certificate, and API servers that have not seen the new CA, go on understanding each other.
const overlap = time.Hour

// backdated is how far the library sets the beginning of a certificate's life before the time of its making.
const backdated = time.Hour

// bundle returns the CA bundle to register: ca, the first certificate of a PEM text, and, while it is new, those of
// registered that are still valid. It is an error if ca holds no certificate; what cannot be read in registered is
// dropped. Bundling again gives the same.
func bundle(ca, registered []byte, now time.Time) ([]byte, error) {
	current := certificates(ca)
	if len(current) == 0 {
		return nil, errors.New("no CA certificate")
	}
	keep := current[:1]
	if now.Before(current[0].NotBefore.Add(backdated + overlap)) {
		for _, old := range certificates(registered) {
			if now.Before(old.NotAfter) && !contains(keep, old) {
				keep = append(keep, old)
			}
		}
	}
	var text bytes.Buffer
	for _, certificate := range keep {
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// verify says why a server with this certificate could not be trusted under this name by whoever has this CA bundle;
// nil if it is.
func verify(leaf *x509.Certificate, bundle []byte, name string, now time.Time) error {
	roots := x509.NewCertPool()
	for _, ca := range certificates(bundle) {
		roots.AddCert(ca)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("the webhook certificate does not verify: %w", err)
	}
	return nil
}

// certificates are those that a PEM text holds, in order. What is something else, or cannot be read, is left out.
func certificates(text []byte) []*x509.Certificate {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, certificate)
		}
	}
}

func contains(all []*x509.Certificate, one *x509.Certificate) bool {
	for _, other := range all {
		if other.Equal(one) {
			return true
		}
	}
	return false
}
