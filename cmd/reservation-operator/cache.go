package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// cacheOptions says what the operator keeps in memory: its own kinds whole, Nodes without what nobody reads, and in
// its own namespace the index and its Secrets. Pods are never among it.
func cacheOptions(namespace string) cache.Options {
	own := map[string]cache.Config{namespace: {}}
	return cache.Options{
		ReaderFailOnMissingInformer: false,
		DefaultTransform:            cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}: {Transform: slimNode},
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
				namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", v1alpha1.IndexName)},
			}},
			&corev1.Secret{}: {Namespaces: own},
		},
	}
}

// slimNode drops from a Node what no decision reads and what would double its size: who manages which field, the
// images, and all of its status but whether it answers. Patches are made from the difference between two such Nodes, so
// what is not here is never written.
func slimNode(o any) (any, error) {
	if node, ok := o.(*corev1.Node); ok {
		node.ManagedFields = nil
		var ready []corev1.NodeCondition
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				ready = append(ready, corev1.NodeCondition{Type: c.Type, Status: c.Status})
			}
		}
		node.Status = corev1.NodeStatus{Conditions: ready}
	}
	return o, nil
}
