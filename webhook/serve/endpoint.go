package serve

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
)

// Endpoint is where the API server finds the operator's webhooks: a Service, or, for an operator outside the cluster,
// a URL.
type Endpoint struct {
	// URL is the base, as https://localhost:9443. Its host must be a DNS name, not an address. Empty: the Service below.
	URL string
	// ServiceNamespace and ServiceName name the Service.
	ServiceNamespace, ServiceName string
	// Port is the Service's port; 0 is 443.
	Port int32
}

// Validate says what is wrong with an endpoint that the API server could not use, all at once; nil if nothing is.
func (e Endpoint) Validate() error {
	if e.URL == "" {
		if e.ServiceName == "" || e.ServiceNamespace == "" {
			return errors.New("webhook endpoint: neither a URL nor the namespace and name of a Service are given")
		}
		return nil
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return fmt.Errorf("webhook endpoint: %w", err)
	}
	var errs []error
	if u.Scheme != "https" {
		errs = append(errs, errors.New("the scheme must be https"))
	}
	if host := u.Hostname(); host == "" || net.ParseIP(host) != nil {
		errs = append(errs, fmt.Errorf("the host %q must be a DNS name, for which a certificate can be made", host))
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		errs = append(errs, errors.New("it must have no user, query or fragment"))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("webhook endpoint %q: %w", u.Redacted(), errors.Join(errs...))
}

// DNSNames returns the names that the certificate must have: first the one by which the API server calls, then others
// by which the same server can be reached, without repetitions. The endpoint must be valid.
func (e Endpoint) DNSNames() []string {
	var names []string
	if u, err := url.Parse(e.URL); err == nil && e.URL != "" {
		names = append(names, u.Hostname())
	}
	if e.ServiceName != "" {
		service := e.ServiceName + "." + e.ServiceNamespace
		names = append(names, service+".svc", service+".svc.cluster.local", service)
	}
	if !slices.Contains(names, "localhost") {
		names = append(names, "localhost")
	}
	return names
}
