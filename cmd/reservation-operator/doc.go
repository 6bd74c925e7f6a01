// Command reservation-operator is the whole product in one binary: it follows the tenants' Git repositories, locks and
// releases nodes, serves the admission webhooks and keeps the API server's fences in place.
//
// It wires and nothing else; every decision is in another package. Run it with --help for its flags; docs/how-to/install.md
// says how it is installed. Outside a cluster it needs --kubeconfig and --webhook-url:
//
//	reservation-operator --kubeconfig admin.conf --webhook-url https://localhost:9443
package main
