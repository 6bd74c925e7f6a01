package inject

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(s))
	return s
}

func reservation(name, tenant string, change ...func(*v1alpha1.Reservation)) *v1alpha1.Reservation {
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.Tenant = tenant
	r.Spec.Namespaces = []string{"alpha-train"}
	for _, f := range change {
		f(r)
	}
	return r
}

func reservationBinding(namespace, name, reservation string, change ...func(*v1alpha1.ReservationBinding)) *v1alpha1.ReservationBinding {
	b := &v1alpha1.ReservationBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	b.Spec.ReservationName = reservation
	b.Spec.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "train"}}
	for _, f := range change {
		f(b)
	}
	return b
}

func TestLookup(t *testing.T) {
	objects := []client.Object{
		reservation("alpha", "alpha"),
		reservation("beta", "beta", func(r *v1alpha1.Reservation) { r.Spec.Namespaces = nil }),
		reservation("evict", "alpha", func(r *v1alpha1.Reservation) {
			r.Spec.ApplyTaint, r.Spec.TaintEffect = ptr.To(false), corev1.TaintEffectNoExecute
		}),
		reservation("going", "alpha", func(r *v1alpha1.Reservation) {
			r.Finalizers, r.DeletionTimestamp = []string{v1alpha1.FinalizerRelease}, ptr.To(metav1.Now())
		}),
		reservationBinding("alpha-train", "a", "alpha"),
		reservationBinding("alpha-train", "b", "evict", func(b *v1alpha1.ReservationBinding) {
			b.Spec.PodSelector, b.Spec.InjectAffinity, b.Spec.InjectToleration = &metav1.LabelSelector{}, ptr.To(false), ptr.To(true)
		}),
		reservationBinding("alpha-train", "c", "missing"),
		reservationBinding("alpha-train", "d", "going"),
		reservationBinding("alpha-train", "e", "beta"),
		reservationBinding("alpha-train", "f", "alpha", func(b *v1alpha1.ReservationBinding) { b.Spec.PodSelector = nil }),
		reservationBinding("beta", "g", "beta", func(b *v1alpha1.ReservationBinding) { b.Spec.InjectToleration = ptr.To(false) }),
		reservationBinding("other", "h", "alpha"),
	}
	train := labels.SelectorFromSet(labels.Set{"team": "train"})
	lookup := NewLookup(fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).Build())
	for namespace, want := range map[string][]Binding{
		"alpha-train": {
			{Name: "a", Reservation: "alpha", Tenant: "alpha", Effect: "NoSchedule", Selector: train, Affinity: true, Toleration: true},
			{Name: "b", Reservation: "evict", Tenant: "alpha", Effect: "NoExecute", Selector: labels.Everything(), Toleration: true},
		},
		"beta":  {{Name: "g", Reservation: "beta", Tenant: "beta", Effect: "NoSchedule", Selector: train, Affinity: true}},
		"other": nil,
		"none":  nil,
	} {
		t.Run(namespace, func(t *testing.T) {
			got, err := lookup.InNamespace(t.Context(), namespace)
			require.NoError(t, err)
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, want[i].Selector.String(), got[i].Selector.String())
				got[i].Selector, want[i].Selector = nil, nil
			}
			require.Equal(t, want, got)
		})
	}
}

func TestLookup_passes_on_that_it_cannot_read(t *testing.T) {
	broken := errors.New("the cache is closed")
	for name, funcs := range map[string]interceptor.Funcs{
		"bindings": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken }},
		"a Reservation": {Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		}},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithScheme(scheme(t)).WithInterceptorFuncs(funcs).
				WithObjects(reservation("alpha", "alpha"), reservationBinding("alpha-train", "a", "alpha")).Build()
			_, err := NewLookup(reader).InNamespace(t.Context(), "alpha-train")
			require.ErrorIs(t, err, broken)
		})
	}
}
