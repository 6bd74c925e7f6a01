// Package apply makes the cluster's objects what a commit says, and nothing else.
//
// In come the rendered objects of a whole commit and the inventory of its source; out go server-side applies with the
// field manager reservation-source, deletions, and, per object, what became of it. A commit goes through in this order:
//
//	live, err := applier.Gather(ctx, objects)                        // reads
//	preview, err := applier.Preview(ctx, commit, objects, live)      // dry runs of everything
//	if render.Rejected(preview.Findings) { … }                       // change nothing
//	// The caller stores the inventory, old ∪ new, before the first write.
//	result := applier.Apply(ctx, commit, preview)                    // writes what differs
//	pruned := applier.Prune(ctx, source, apply.Difference(old, new)) // deletes what is gone
//
// It never forces the ownership of a field: it takes away from people only their share in what the commit says as well.
// It never deletes an object to make it anew, never writes an object that is as it should be, and never deletes one that
// does not bear its source's label, that was made again under the same name meanwhile, or whose namespace still has
// running pods. One object's failure holds up no other object.
//
// The dry runs and writes of a commit are judged as a whole by source/check, so admission must let the operator's
// own service account do what no single object can justify: move a node from one Reservation to another in one
// commit, or bind to a Reservation that the same commit makes.
package apply
