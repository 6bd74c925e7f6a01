package main

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// missingCRDs returns the plural names of the operator's kinds that are not served.
func missingCRDs(d discovery.DiscoveryInterface) ([]string, error) {
	served := map[string]bool{}
	resources, err := d.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("asking the API server which kinds it serves: %w", err)
	}
	if resources != nil {
		for _, r := range resources.APIResources {
			served[r.Name] = true
		}
	}
	var missing []string
	for _, name := range []string{"reservations", "reservationbindings", "reservationsources"} {
		if !served[name] {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

func crdsMessage(missing []string) string {
	return "the API server does not serve " + strings.Join(missing, ", ") +
		"; install the CRDs with: kubectl apply -k config/crd"
}
