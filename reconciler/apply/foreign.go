package apply

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// defaults are values that the CRDs fill in, so that whoever wrote the object first holds them without meaning to.
var defaults = map[string]any{
	"spec.applyTaint": true, "spec.taintEffect": "NoSchedule", "spec.injectAffinity": true, "spec.injectToleration": true, "spec.scope": "Tenant",
}

// foreign warns of fields of our kinds that are not in the commit and that another field manager set: a node added by
// kubectl edit, say. A server-side apply without force leaves them, so the object is more than the commit says.
func foreign(s Step) []render.Finding {
	if s.Then == nil || s.Verb == Skip || s.Verb == Await || s.Then.GroupVersionKind().Group != v1alpha1.Group {
		return nil
	}
	byManager := foreignFields(s.Then)
	var out []render.Finding
	for _, manager := range slices.Sorted(maps.Keys(byManager)) {
		fields := byManager[manager]
		f := finding(s, fields[0], fmt.Sprintf("is not in the commit: the field manager %q set it%s, and it stays until it is "+
			"taken out by hand", manager, andOthers(fields[1:])))
		f.Warning = true
		out = append(out, f)
	}
	return out
}

func andOthers(fields []string) string {
	if len(fields) == 0 {
		return ""
	}
	return " (and " + strings.Join(fields, ", ") + ")"
}

// foreignFields returns the fields of the spec that others hold and we do not, by field manager.
func foreignFields(o *unstructured.Unstructured) map[string][]string {
	entries := o.GetManagedFields()
	ours := heldBy(entries, v1alpha1.FieldManagerSource)
	others := map[string]*fieldpath.Set{}
	for _, e := range entries {
		if e.Manager != v1alpha1.FieldManager && e.Manager != v1alpha1.FieldManagerSource && others[e.Manager] == nil {
			others[e.Manager] = heldBy(entries, e.Manager)
		}
	}
	out := map[string][]string{}
	for manager, set := range others {
		for path := range set.Leaves().Difference(ours).All() {
			if field := strings.TrimPrefix(path.String(), "."); strings.HasPrefix(field, "spec.") && !isDefault(o, field) {
				out[manager] = append(out[manager], field)
			}
		}
		slices.Sort(out[manager])
	}
	return out
}

func isDefault(o *unstructured.Unstructured, field string) bool {
	want, known := defaults[field]
	got, _, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(field, ".")...)
	return known && got == want
}
