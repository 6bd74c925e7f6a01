package binding

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// neverInjected are the namespaces that no binding can bind: the webhook is never registered there (DESIGN.md,
// Admission), so that an outage of the operator cannot hold up the cluster or the operator itself.
var neverInjected = []string{metav1.NamespaceSystem, v1alpha1.OperatorNamespace}

// Accept decides whether a binding counts: whether its pods get the injection. reservation is the one that it names,
// or nil if there is none of that name.
//
// If the binding does not count, the reason is one of ReservationNotFound, ReservationTerminating,
// NamespaceNotAccepted and InvalidPodSelector, the first of them that applies, and the message says what to do. It does
// not name the namespaces that the Reservation does accept: who reads a binding need not know the other tenants. If
// the binding counts, reason and message are empty. Neither object is changed.
//
// A binding that is being deleted counts until it is gone.
func Accept(binding *v1alpha1.ReservationBinding, reservation *v1alpha1.Reservation) (ok bool, reason, message string) {
	name := binding.Spec.ReservationName
	switch {
	case reservation == nil:
		return false, v1alpha1.ReasonReservationNotFound, fmt.Sprintf(
			"there is no Reservation %s; correct spec.reservationName, or ask the platform team to make it", name)
	case !reservation.DeletionTimestamp.IsZero():
		return false, v1alpha1.ReasonReservationTerminating, fmt.Sprintf(
			"Reservation %s is being deleted and its nodes released; new pods are not sent to them: name another "+
				"Reservation in spec.reservationName, or delete this binding", name)
	case slices.Contains(neverInjected, binding.Namespace):
		return false, v1alpha1.ReasonNamespaceNotAccepted, fmt.Sprintf(
			"pods of namespace %s are never injected; move the workload to a namespace of its own", binding.Namespace)
	case !slices.Contains(reservation.AcceptedNamespaces(), binding.Namespace):
		return false, v1alpha1.ReasonNamespaceNotAccepted, fmt.Sprintf(
			"Reservation %s does not accept namespace %s; ask the platform team to add it to spec.namespaces of that "+
				"Reservation", name, binding.Namespace)
	}
	if err := SelectorError(binding); err != nil {
		return false, v1alpha1.ReasonInvalidPodSelector, fmt.Sprintf("spec.podSelector: %v; correct it", err)
	}
	return true, "", ""
}

// SelectorError says what is wrong with the binding's podSelector; nil if nothing is.
func SelectorError(binding *v1alpha1.ReservationBinding) error {
	if binding.Spec.PodSelector == nil {
		return errors.New("it is missing; {} selects every pod of the namespace")
	}
	_, err := metav1.LabelSelectorAsSelector(binding.Spec.PodSelector)
	return err
}
