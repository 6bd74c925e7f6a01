// Package fetch turns a Git repository's address into the newest commit of a
// branch and that commit's files.
//
// In: a [Remote] (address, branch, the data of a Secret) and [Limits]. Out: a
// [Commit] whose Tree is a read-only view of a fresh temporary folder, or an
// [*Error] with one [Reason] of a closed list, which a caller can put into a
// condition as it stands.
//
// It never runs a git binary, never keeps a clone between calls, never skips a
// host key or certificate check, never sends credentials to another host than
// the one they were given for, and never puts them into an error. A work tree
// is written from the commit's own objects and thrown away whole, so a
// force-push, an amended commit or a garbage collection on the server cannot
// leave anything behind.
//
//	head, err := fetch.Look(ctx, remote)
//	if err != nil || head.Revision() == lastRevision {
//		return err
//	}
//	commit, err := fetch.Fetch(ctx, remote, head, fetch.DefaultLimits())
//	if err != nil {
//		return err
//	}
//	defer commit.Close()
//	objects, findings, err := render.Render(ctx, commit.Tree, "tenants", render.DefaultLimits())
package fetch
