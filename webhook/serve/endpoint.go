package serve

// Endpoint is where the API server finds the operator's webhooks: a Service, or, for an operator outside the cluster,
// a URL.
type Endpoint struct {
	// URL is the base, as https://localhost:9443. Its host must be a DNS name. Empty: the Service below.
	URL string
	// ServiceNamespace and ServiceName name the Service.
	ServiceNamespace, ServiceName string
	// Port is the Service's port; 0 is 443.
	Port int32
}
