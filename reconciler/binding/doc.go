// Package binding decides which ReservationBindings count, has the API server call the webhook for just their
// namespaces, and says on each binding how it stands.
//
// In come all ReservationBindings and Reservations; out go the sorted namespaces that have an accepted binding (to the
// Door, which registers them) and the status of each binding. It never touches a pod, and it never registers a
// namespace whose bindings were not accepted. The pure rule, Accept, is shared with the webhooks, which decide again
// at every request:
//
//	ok, reason, message := binding.Accept(b, reservation)
//
// Order, for safety: decide, wait until the enforced index has keep-out leave the namespace to the webhook, register,
// then say so. A binding is Ready only after its namespace was registered.
package binding
