package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group is the API group of the three kinds, as on the page (spec.md).
const Group = "scheduling.coreweave.cloud"

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

// AddToScheme registers the three kinds and their lists with a scheme. It returns an error only if the scheme
// already holds another type under one of their names.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Reservation{}, &ReservationList{},
		&ReservationBinding{}, &ReservationBindingList{},
		&ReservationSource{}, &ReservationSourceList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
