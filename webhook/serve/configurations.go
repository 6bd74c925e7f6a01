package serve

import admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

// Names of the webhook configurations.
const (
	MutatingName   = "reservation-pod-injection"
	ValidatingName = "reservation-validation"
)

// Paths of the webhooks on the operator's server.
const (
	MutatePodsPath                  = "/mutate-pods"
	ValidateReservationsPath        = "/validate-reservations"
	ValidateReservationBindingsPath = "/validate-reservationbindings"
)

// Mutating returns the configuration that injects into the pods of these namespaces.
func Mutating(e Endpoint, ca []byte, namespaces []string) *admissionregistrationv1.MutatingWebhookConfiguration {
	return nil
}

// Validating returns the configuration that validates Reservations and ReservationBindings.
func Validating(e Endpoint, ca []byte, exempt []string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return nil
}
