// Package check decides whether a whole commit may be applied, before anything of it is written.
//
// In come the rendered objects and what lives in the cluster now, as plain values; out come findings, all at once,
// each with file and field. It never reads the cluster itself, never writes and never changes its input. What only
// the API server knows (limits, CEL rules, admission) is left to a dry run.
//
//	findings := check.Check(check.Set{Source: "tenants", Objects: objects, Live: live})
//	if render.Rejected(findings) {
//		return findings // change nothing
//	}
//
// The rule on nodes that two Reservations name is shared with the validating webhook:
//
//	for _, o := range check.Overlaps(reservations) {
//		fmt.Printf("%s: %s has it, %s wants it too\n", o.Node, o.First.Name, o.Second.Name)
//	}
package check
