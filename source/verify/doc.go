// Package verify decides whether a commit comes from somebody whose commits are applied.
//
// In comes a fetched commit with its files; out come findings, which reject it like any other finding. It never
// fetches, renders or applies.
//
// For now there is only the hook: [Accept], which trusts whoever may push to the repository. Signatures, and rules on
// who may change whose folder, take its place when spec.verify is supported; until then the API refuses that field.
//
//	findings, err := verify.Accept(ctx, commit)
package verify
