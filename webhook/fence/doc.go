// Package fence keeps foreign pods off reserved nodes with in-tree admission policies, which hold while the operator
// is down (DESIGN.md, Admission).
//
// In come Settings; out go policies as plain values (Policies), an Installer that keeps the live ones equal to them, and
// a Probe that asks the API server which version of the index it enforces. The policies read one parameter, the index
// ConfigMap, which somebody else writes and which must exist before they are installed: without it they deny.
//
// What it never does: it decides nothing about nodes, writes no index, and never deletes a policy to make it anew.
//
//	installer := &fence.Installer{Client: live, Settings: fence.Settings{Namespace: "reservation-operator", KeepOut: true}}
//	err := installer.Ensure(ctx)
//	version, err := fence.Probe{Client: live}.Version(ctx)
package fence
