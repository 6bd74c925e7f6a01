// Package check decides whether a whole commit may be applied, before anything of it is written.
//
// In come the rendered objects and what lives in the cluster now; out come findings, all at once, each with file and
// field. It never reads the cluster itself and never writes.
//
// The rule on nodes that two Reservations name is shared with the validating webhook:
//
//	for _, o := range check.Overlaps(reservations) {
//		fmt.Printf("%s: %s has it, %s wants it too\n", o.Node, o.First.Name, o.Second.Name)
//	}
package check
