// Package cluster puts a whole installation together for tests, the demo and benchmarks: a real control plane, its
// nodes, what config/ installs, the operator as a process of its own under its own service account, and a tenants'
// Git repository.
//
// In come Options; out goes a Cluster that is ready for commits. It decides nothing and fakes nothing; everything it
// starts, Stop ends.
//
//	c, err := cluster.Start(ctx, cluster.Options{Nodes: cluster.PageNodes()})
//	defer c.Stop()
//	err = c.Operator.Start(ctx)
package cluster
