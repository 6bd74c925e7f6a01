package serve

import (
	"crypto/tls"

	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
)

// ServerOptions returns the options of a controller-runtime webhook server that listens on host (empty: every address)
// and port (0: 9443), speaks TLS 1.2 or newer, and takes its certificate from where the function says, anew for each
// connection; no files are involved.
//
//	manager.Options{WebhookServer: webhook.NewServer(serve.ServerOptions("", 9443, certificates.GetCertificate))}
func ServerOptions(host string, port int, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) ctrlwebhook.Options {
	return ctrlwebhook.Options{
		Host: host,
		Port: port,
		TLSOpts: []func(*tls.Config){func(config *tls.Config) {
			config.MinVersion = tls.VersionTLS12
			config.GetCertificate = certificate
		}},
	}
}
