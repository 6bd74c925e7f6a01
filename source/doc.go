// Package source is the way from a Git repository to objects that may be applied:
//
//	fetch -> verify -> render -> check
//
// In comes a ReservationSource's address with the data of its Secret; out come a commit, its objects with file and
// line, and every finding. An [*Error] says what is in the way when it is not the commit's fault; nothing may be
// pruned on one. This package reads the repository and nothing else: what lives in the cluster is handed to it, and
// it never writes.
//
//	loaded, err := chain.Load(ctx, request, head)
//	if err != nil {
//		return err
//	}
//	findings := loaded.Check(check.Set{Source: "tenants", Live: live})
package source
