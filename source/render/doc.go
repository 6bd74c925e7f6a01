// Package render turns the files of a commit into ordered objects, each with
// the file and line it was written at.
//
// In: an fs.FS that holds one commit, a folder in it, and [Limits]. Out: the
// objects, and every [Finding]: all problems at once, in a fixed order. A
// commit with a finding that is not a warning must be rejected whole.
//
// A folder with a kustomization is built with kustomize; a folder without one
// is read as plain YAML, and its sub-folders likewise. Both paths read files
// through the same strict decoder, so they give the same answer for the same
// file, and what one of them refuses the other does.
//
// It never reads outside of the commit, never runs a program or a plugin, never
// uses the network, and never quotes what a symbolic link points to.
//
//	objects, findings, err := render.Render(ctx, commit.Tree, "tenants", render.DefaultLimits())
//	switch {
//	case errors.Is(err, render.ErrPathNotFound): // a source error: never prune on it
//	case render.Rejected(findings): // report them all, change nothing
//	}
package render
