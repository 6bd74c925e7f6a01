// Package fleet has the machines and the load of a GPU cluster as plain values: read from a recording (Read), or made
// from a few published figures (Make). It knows nothing of the operator.
//
//	recorded, err := fleet.Read("path/to/folder") // nodes.yaml and pods.csv
//	made := fleet.Make(7)
package fleet
