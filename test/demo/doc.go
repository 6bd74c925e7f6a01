// Command demo plays the product's main job on a real control plane: commits lock nodes, a tenant's pod runs on them,
// foreign pods do not, a release waits for running work, and a git revert undoes it. It prints every step with the
// kubectl output behind it and its time, and ends everything that it starts.
//
//	make demo         stays up after the story, to play with, until Ctrl-C
//	make demo ONCE=1  exits after it: 0 if every step came true
package main
