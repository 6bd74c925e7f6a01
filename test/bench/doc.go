// Command bench measures the product against what could be done by hand, side by side in one run on one control plane,
// and prints a figure a line:
//
//	figure NAME ours=… baseline=… ratio=… goal=…
//
// The ratio is ours by baseline. A goal that was missed is marked so; the command fails only if something could not be
// measured, since a machine's mood is no bug. Run it with make bench.
package main
