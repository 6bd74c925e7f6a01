// Package validate refuses Reservations and ReservationBindings that a person would regret, when they are written.
//
// In come the object, what it was before, and what else is there; out come all errors at once, each with its field, and
// warnings. The rules are pure and are shared with those who decide in the end: allocation keeps the first holder of a
// node, and a binding without a right to its Reservation injects nothing, whether or not the webhook was there to say
// so. What was wrong before is never held against a change that does not touch it, and nothing is held against an
// object that is being deleted.
//
// It never changes an object and calls no API but to read. The operator's own writes come from commits that were
// checked as a whole; for them, whatever another object of the same commit may still cure is let through.
//
//	errs := validate.Reservation(candidate, old, others)
package validate
