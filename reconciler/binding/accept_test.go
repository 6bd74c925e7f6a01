package binding

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func reservation(change ...func(*v1alpha1.Reservation)) *v1alpha1.Reservation {
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "tenant-foo-reservation", Generation: 1}}
	r.Spec.Tenant = "tenant-foo"
	r.Spec.ReservedNodes = []string{"gpu-01"}
	for _, f := range change {
		f(r)
	}
	return r
}

func bindingIn(namespace string, change ...func(*v1alpha1.ReservationBinding)) *v1alpha1.ReservationBinding {
	b := &v1alpha1.ReservationBinding{ObjectMeta: metav1.ObjectMeta{
		Name: "tenant-foo-binding", Namespace: namespace, Generation: 1,
	}}
	b.Spec.ReservationName = "tenant-foo-reservation"
	b.Spec.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/managed-by": "tenant-foo"}}
	for _, f := range change {
		f(b)
	}
	return b
}

func accepting(namespaces ...string) func(*v1alpha1.Reservation) {
	return func(r *v1alpha1.Reservation) { r.Spec.Namespaces = namespaces }
}

func deleted(r *v1alpha1.Reservation) {
	now := metav1.Now()
	r.DeletionTimestamp = &now
	r.Finalizers = []string{v1alpha1.FinalizerRelease}
}

func selecting(selector *metav1.LabelSelector) func(*v1alpha1.ReservationBinding) {
	return func(b *v1alpha1.ReservationBinding) { b.Spec.PodSelector = selector }
}

func broken(b *v1alpha1.ReservationBinding) {
	b.Spec.PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
}

func TestAccept(t *testing.T) {
	for name, tc := range map[string]struct {
		binding     *v1alpha1.ReservationBinding
		reservation *v1alpha1.Reservation
		wantReason  string
		wantMessage string
	}{
		"the page's own example": {binding: bindingIn("tenant-foo"), reservation: reservation()},
		"every pod":              {binding: bindingIn("tenant-foo", selecting(&metav1.LabelSelector{})), reservation: reservation()},
		"a namespace of the list": {
			binding: bindingIn("alpha-train"), reservation: reservation(accepting("alpha-serve", "alpha-train"))},
		"no such Reservation": {
			binding: bindingIn("tenant-foo"), wantReason: v1alpha1.ReasonReservationNotFound,
			wantMessage: "no Reservation tenant-foo-reservation"},
		"a Reservation that is being deleted": {
			binding: bindingIn("tenant-foo"), reservation: reservation(deleted),
			wantReason: v1alpha1.ReasonReservationTerminating, wantMessage: "is being deleted"},
		"a foreign namespace": {
			binding: bindingIn("tenant-bar"), reservation: reservation(),
			wantReason: v1alpha1.ReasonNamespaceNotAccepted, wantMessage: "does not accept namespace tenant-bar"},
		"the tenant's own name does not count once namespaces are listed": {
			binding: bindingIn("tenant-foo"), reservation: reservation(accepting("alpha-train")),
			wantReason: v1alpha1.ReasonNamespaceNotAccepted, wantMessage: "add it to spec.namespaces"},
		"kube-system, even if listed": {
			binding: bindingIn("kube-system"), reservation: reservation(accepting("kube-system")),
			wantReason: v1alpha1.ReasonNamespaceNotAccepted, wantMessage: "never injected"},
		"no selector": {
			binding: bindingIn("tenant-foo", selecting(nil)), reservation: reservation(),
			wantReason: v1alpha1.ReasonInvalidPodSelector, wantMessage: "{} selects every pod"},
		"a selector that does not parse": {
			binding: bindingIn("tenant-foo", broken), reservation: reservation(),
			wantReason: v1alpha1.ReasonInvalidPodSelector, wantMessage: "not a valid label selector operator"},
	} {
		t.Run(name, func(t *testing.T) {
			ok, reason, message := Accept(tc.binding, tc.reservation)
			require.Equal(t, tc.wantReason == "", ok)
			require.Equal(t, tc.wantReason, reason)
			require.Contains(t, message, tc.wantMessage)
			require.Equal(t, ok, message == "")
		})
	}
}

func TestAccept_does_not_tell_a_tenant_about_the_others(t *testing.T) {
	_, _, message := Accept(bindingIn("tenant-bar"), reservation(accepting("secret-project")))
	require.NotContains(t, message, "secret-project")
	require.NotContains(t, message, "tenant-foo ") // the tenant; the Reservation's name was given by the asker
}
