package inject

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/binding"
)

// Lookup finds the accepted bindings of a namespace through a cache. It does not read a binding's status: whether the
// Reservation accepts it is decided again each time, by the rule that wrote the status.
type Lookup struct {
	reader client.Reader
}

var _ Bindings = (*Lookup)(nil)

// NewLookup returns a Lookup that reads ReservationBindings and Reservations from reader, which is to be a cache that
// has synced: a cold one would have no bindings, and pods would be admitted without injection.
func NewLookup(reader client.Reader) *Lookup {
	return &Lookup{reader: reader}
}

// InNamespace returns the bindings of the namespace that their Reservations accept.
func (l *Lookup) InNamespace(ctx context.Context, namespace string) ([]Binding, error) {
	var list v1alpha1.ReservationBindingList
	// Nothing here is changed, so the cache's own objects do: no copy per request.
	if err := l.reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ReservationBindings: %w", err)
	}
	var out []Binding
	for i := range list.Items {
		b := &list.Items[i]
		reservation, err := l.reservation(ctx, b.Spec.ReservationName)
		if err != nil {
			return nil, err
		}
		if ok, _, _ := binding.Accept(b, reservation); !ok {
			continue
		}
		made, err := bindingOf(b, reservation)
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

// reservation returns the Reservation of that name; nil if there is none.
func (l *Lookup) reservation(ctx context.Context, name string) (*v1alpha1.Reservation, error) {
	r := &v1alpha1.Reservation{}
	err := l.reader.Get(ctx, types.NamespacedName{Name: name}, r, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Reservation %s: %w", name, err)
	}
	return r, nil
}

func bindingOf(b *v1alpha1.ReservationBinding, r *v1alpha1.Reservation) (Binding, error) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.PodSelector)
	if err != nil {
		return Binding{}, fmt.Errorf("podSelector of ReservationBinding %s: %w", b.Name, err)
	}
	return Binding{
		Name: b.Name, Reservation: r.Name, Tenant: r.Spec.Tenant, Effect: r.Effect(), Selector: selector,
		Affinity: b.InjectsAffinity(), Toleration: b.InjectsToleration(),
	}, nil
}
