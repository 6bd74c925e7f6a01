// Package forge tells the place where a repository is hosted what became of a commit.
//
// In come the name of a source, a revision, a [State] and a sentence; out goes nothing that could hold up the commit:
// a [Reporter] that fails is reported, and the commit goes on. It never decides anything about a commit.
//
// For now there is only the hook, and nothing hangs on it. Statuses and comments on the forges come with
// spec.commitStatus; until then the API refuses that field.
//
//	err := reporter.Report(ctx, source, "main@sha1:…", forge.Pending, "9 locked, gpu-04 draining: 3 pods")
package forge
