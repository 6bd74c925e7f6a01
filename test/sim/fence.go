package sim

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/reconciler/allocate"
)

// fence enforces the index that was stored when it last looked.
type fence struct {
	world *world
	data  map[string]string
	index allocate.Index
	// broken: somebody has taken a policy away, or the API server does not answer. slow: it does not look when asked.
	broken, slow bool
}

var indexKey = keyFor(v1alpha1.OperatorNamespace, v1alpha1.IndexName)

func (f *fence) look() {
	f.data, f.index = nil, allocate.Index{}
	if m := stored[*corev1.ConfigMap](f.world.server, configs, indexKey); m != nil {
		f.data = m.Data
		f.index, _ = allocate.Parse(m.Data)
	}
}

// accepts is what the policies say of a bind. Without an index they refuse everything.
func (f *fence) accepts(node, namespace string) bool {
	return f.data != nil && (!f.lists(node) || strings.Contains(f.data[allocate.KeyNodes], "|"+node+" "+namespace+"|"))
}

func (f *fence) lists(node string) bool {
	return strings.Contains(f.data[allocate.KeyNodes], "|"+node+" ")
}

// accepted returns the namespaces whose pods an index lets come to a node.
func accepted(index map[string]string, node string) []string {
	var out []string
	for pair := range strings.SplitSeq(index[allocate.KeyNodes], "|") {
		if name, namespace, _ := strings.Cut(pair, " "); name == node && namespace != "" {
			out = append(out, namespace)
		}
	}
	return out
}

// Await answers as the API server would: by what it enforces.
func (f *fence) Await(ctx context.Context, version int64) error {
	t := taskOf(ctx)
	if err := t.gate(false); err != nil {
		return err
	}
	if f.broken {
		return errors.New("a policy is missing")
	}
	if !f.slow {
		f.look()
	}
	if f.data == nil || f.index.Version < version {
		return errors.New("an older index is enforced")
	}
	return nil
}
