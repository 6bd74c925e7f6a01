// Package sim plays random histories of a cluster with the operator's real reconcilers in it, in memory, and checks the
// laws of DESIGN.md after each thing that happens.
//
// What comes in: a number of steps and a seed. What goes out: the laws that were broken, each with the shortest history
// that leads there. The same seed gives the same history. docs/explanation/simulation.md says what is modelled.
//
//	result := sim.Run(sim.Options{Steps: 100_000, Seed: 7})
//	for _, v := range result.Violations {
//		sim.Tell(os.Stdout, v)
//	}
package sim
