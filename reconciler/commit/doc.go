// Package commit follows tenants' repositories: it makes the cluster what the head of each says, and writes down what
// became of every commit.
//
// In come ReservationSources, the commits of their repositories and what lives in the cluster; out go the objects of
// the commit (through reconciler/apply), the inventory, the history and the conditions in the source's status, and a
// word to the forge. A commit is applied whole or not at all: whatever is wrong with it is found by a check of the
// whole set and by dry runs before the first write. Nothing is applied or pruned when the repository cannot be read.
//
// It never touches a Node, decides nothing about who holds one, never keeps a clone, and writes nothing when there is
// nothing to say: a source at rest costs one look at its repository per interval, a check of all its objects every ten
// minutes, and no write. Reservations and ReservationBindings that somebody else changed are put right at once, the
// other kinds by that check.
//
// A source's way, as a list of steps, is in controller.go. What it remembers beyond the status (what it wrote last, so
// that an edit by somebody else is noticed) is rebuilt by one full pass after a restart.
//
//	err := (&commit.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), …}).SetupWithManager(mgr)
package commit
