package render

import (
	"fmt"
	"testing"
)

// BenchmarkRender is the cost of a whole commit: by plain YAML, by a
// kustomization per tenant, and by one kustomization for all.
func BenchmarkRender(b *testing.B) {
	for _, tenants := range []int{10, 100, 300} {
		plain, each, one := files{}, files{}, files{"kustomization.yaml": "resources:\n"}
		for i := range tenants {
			name := fmt.Sprintf("tenant-%d", i)
			content := namespace(name) + "---\n" + reservation(name, "  reservedNodes: [a, b, c, d]\n")
			plain[name+"/r.yaml"], each[name+"/r.yaml"], one[name+"/r.yaml"] = content, content, content
			each[name+"/kustomization.yaml"] = "resources: [r.yaml]\n"
			one["kustomization.yaml"] += "- " + name + "/r.yaml\n"
		}
		for name, f := range map[string]files{"plain": plain, "kustomization-each": each, "one-kustomization": one} {
			b.Run(fmt.Sprintf("%s/tenants=%d", name, tenants), func(b *testing.B) {
				tree := f.tree()
				for b.Loop() {
					objects, findings, err := Render(b.Context(), tree, "", Limits{})
					if err != nil || len(findings) > 0 || len(objects) != 2*tenants {
						b.Fatal(len(objects), lines(findings), err)
					}
				}
			})
		}
	}
}
