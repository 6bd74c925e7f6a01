// Command chaos plays one life of 30 nodes on a real control plane, again and again, while the operator is killed after
// each of its writes, while the API server and etcd go away, and while two operators lose their lease to each other. All
// that happened to nodes, pods and the index is recorded, and the laws are checked against the record: make chaos.
//
// In comes nothing; out goes what broke a law, and the line "chaos kills=… outages=… violations=…".
package main
