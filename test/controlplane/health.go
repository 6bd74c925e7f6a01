package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// answersOK asks a URL whether a component is healthy: yes is status 200. With an authority the server must have a
// certificate of it. Connections are not kept: the component may be gone at the next question.
func answersOK(url string, a *authority) func(context.Context) error {
	transport := &http.Transport{DisableKeepAlives: true}
	if a != nil {
		roots := x509.NewCertPool()
		roots.AddCert(a.certificate)
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return fmt.Errorf("%s: %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
}
