package main

import (
	"fmt"
	"strings"

	node "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	pod "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// printStages writes the Stage objects that kwok ships for nodes that are Ready and pods that run, as one YAML stream.
// Those for the end of pods are left out: the caller has its own.
func printStages() int {
	for _, stage := range []string{
		node.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease, pod.DefaultPodReady,
	} {
		fmt.Printf("---\n%s\n", strings.TrimSpace(stage))
	}
	return 0
}
