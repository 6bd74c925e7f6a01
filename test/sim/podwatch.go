package sim

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// podWatch is a process's watch on the pods of the nodes that wait for them. It tells late, and may begin anew.
type podWatch struct {
	tasks map[string]*task
	// watched are the nodes whose pods are watched, and told those of which there is something to tell.
	watched, told map[string]bool
}

// Watch implements node.PodWatcher. It is also where a node's task stops before the evictions that it makes at once.
func (p *podWatch) Watch(node string) {
	if !p.watched[node] {
		p.watched[node], p.told[node] = true, true // the first list asks for a look
	}
	if t := p.tasks["node/"+node]; t != nil {
		_ = t.gate(true)
	}
}

// Forget implements node.PodWatcher.
func (p *podWatch) Forget(node string) {
	delete(p.watched, node)
	delete(p.told, node)
}

// changed is called for each change of a pod.
func (p *podWatch) changed(before, after *corev1.Pod) {
	if before != nil && after != nil && before.UID == after.UID && before.Status.Phase == after.Status.Phase &&
		before.DeletionTimestamp.Equal(after.DeletionTimestamp) && before.Spec.NodeName == after.Spec.NodeName {
		return
	}
	for _, pod := range []*corev1.Pod{before, after} {
		if pod != nil && p.watched[pod.Spec.NodeName] {
			p.told[pod.Spec.NodeName] = true
		}
	}
}

// restart ends and begins all watches: each begins with a list, which asks for a look.
func (p *podWatch) restart() {
	for node := range p.watched {
		p.told[node] = true
	}
}

// tell returns the nodes that there is something to tell of, sorted, and forgets that.
func (p *podWatch) tell() []string {
	nodes := slices.Sorted(maps.Keys(p.told))
	clear(p.told)
	return nodes
}
