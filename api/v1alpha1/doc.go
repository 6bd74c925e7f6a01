// Package v1alpha1 holds the three kinds of the group scheduling.coreweave.cloud and every word that other
// packages and people share: labels, annotations, finalizers, field managers, conditions and reasons.
//
//   - Reservation (cluster-scoped): these nodes belong to this tenant.
//   - ReservationBinding (namespaced): the pods of this namespace that match go to those nodes.
//   - ReservationSource (cluster-scoped): the Git repository that Reservations and ReservationBindings come from.
//
// Out of it come the CRDs in config/crd and the deep copies beside this file (make generate manifests). It never
// imports a client, a clock or another package of this module.
//
// The smallest useful Reservation:
//
//	apiVersion: scheduling.coreweave.cloud/v1alpha1
//	kind: Reservation
//	metadata:
//	  name: tenant-foo-reservation
//	spec:
//	  tenant: tenant-foo
//	  reservedNodes: [gpu-01, gpu-02]
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.coreweave.cloud
package v1alpha1
