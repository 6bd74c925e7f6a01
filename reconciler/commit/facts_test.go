package commit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

func TestHolders(t *testing.T) {
	require.Equal(t, map[string]string{"held": "foo", "releasing": "foo"}, holders(allocate.Index{Grants: map[string]allocate.Grant{
		"held": {Reservation: "foo", Phase: allocate.Held}, "releasing": {Reservation: "foo", Phase: allocate.Releasing},
		"freed": {Reservation: "foo", Phase: allocate.Freed},
	}}))
}
