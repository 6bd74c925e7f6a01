package render

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bothPaths renders a file named r.yaml as plain YAML and through kustomize,
// and requires the same answer but for the kustomization's own.
func bothPaths(t *testing.T, content string) ([]Object, []Finding) {
	t.Helper()
	plain, plainFindings := files{"r.yaml": content}.render(t, "")
	kz, kzFindings := files{"r.yaml": content, "kustomization.yaml": "resources: [r.yaml]\n"}.render(t, "")
	require.Equal(t, lines(plainFindings), lines(kzFindings))
	if !Rejected(plainFindings) {
		require.Equal(t, plain, kz)
	} else {
		require.Empty(t, kz, "nothing is built of what was refused")
	}
	return plain, plainFindings
}

// A05: links to a sibling are followed, links out of the tree are not, and of
// what is there no byte is told.
func TestCases_A05_Symlinks(t *testing.T) {
	shared := "tenants/_shared/r.yaml"
	for name, c := range map[string]struct {
		link, target string
		kustomize    bool
		want         []string
		wantFindings []string
	}{
		"absolute":               {link: "tenants/alpha/r.yaml", target: "/var/run/secrets/token", wantFindings: []string{"tenants/alpha/r.yaml: " + errEscapes.Error()}},
		"above the root":         {link: "tenants/alpha/r.yaml", target: "../../../../etc/hostname", wantFindings: []string{"tenants/alpha/r.yaml: " + errEscapes.Error()}},
		"above, in kz":           {link: "tenants/alpha/r.yaml", target: "../../../../etc/hostname", kustomize: true, wantFindings: []string{`tenants/alpha/kustomization.yaml:1: "r.yaml" ` + errEscapes.Error()}},
		"absolute, in kz":        {link: "tenants/alpha/r.yaml", target: "/var/run/secrets/token", kustomize: true, wantFindings: []string{`tenants/alpha/kustomization.yaml:1: "r.yaml" ` + errEscapes.Error()}},
		"a kustomization itself": {link: "tenants/alpha/kustomization.yaml", target: "/var/run/secrets/token", wantFindings: []string{"tenants/alpha/kustomization.yaml: " + errEscapes.Error()}},
		"a sibling":              {link: "tenants/beta/r.yaml", target: "../_shared/r.yaml", want: []string{"tenants/beta/r.yaml:1 Reservation/shared"}},
		"a sibling, in kz":       {link: "tenants/beta/r.yaml", target: "../_shared/r.yaml", kustomize: true, want: []string{"tenants/beta/r.yaml:1 Reservation/shared"}},
		"a folder":               {link: "tenants/gamma", target: "_shared", want: []string{"tenants/gamma/r.yaml:1 Reservation/shared"}},
		"a folder out":           {link: "tenants/gamma", target: "../..", wantFindings: []string{"tenants/gamma: " + errEscapes.Error()}},
		"itself":                 {link: "tenants/loop.yaml", target: "loop.yaml", wantFindings: []string{"tenants/loop.yaml: " + errLoops.Error()}},
		"its parent":             {link: "tenants/_shared/up", target: "..", wantFindings: []string{"tenants/_shared/up: " + errLoops.Error()}},
		"nothing":                {link: "tenants/gone.yaml", target: "elsewhere.yaml", wantFindings: []string{"tenants/gone.yaml: " + errDangles.Error()}},
		"no YAML":                {link: "tenants/README.md", target: "../LICENSE"},
	} {
		t.Run(name, func(t *testing.T) {
			f := files{shared: reservation("shared"), c.link: "-> " + c.target, "LICENSE": "x"}
			if c.kustomize {
				f["tenants/"+strings.Split(c.link, "/")[1]+"/kustomization.yaml"] = "resources: [r.yaml]\n"
			}
			objects, findings := f.render(t, "tenants")
			want := []string{"tenants/_shared/r.yaml:1 Reservation/shared"}
			require.Equal(t, append(want, c.want...), lines(objects))
			require.ElementsMatch(t, c.wantFindings, lines(findings))
			require.Equal(t, len(c.wantFindings) > 0, Rejected(findings))
			for _, line := range lines(findings) {
				require.NotContains(t, line, "token")
				require.NotContains(t, line, "hostname")
			}
		})
	}
}

// A06: a Git LFS pointer is named as such.
func TestCases_A06_LFSPointer(t *testing.T) {
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 4743\n"
	_, findings := bothPaths(t, pointer)
	require.True(t, Rejected(findings))
	require.Contains(t, findings[0].String(), "r.yaml: is a Git LFS pointer")

	objects, findings := files{"assets/large.bin": pointer, "a.yaml": namespace("a")}.render(t, "")
	require.Empty(t, findings, "one that is not rendered does not matter")
	require.Len(t, objects, 1)

	_, findings = files{"kustomization.yaml": pointer}.render(t, "")
	require.Contains(t, findings[0].String(), "kustomization.yaml: is a Git LFS pointer")
}

// A08: what looks like text and is none.
func TestCases_A08_TextThatIsNone(t *testing.T) {
	traps := []string{
		"on", "On", "oN", "off", "yes", "no", "NO", "y", "Y", "n", "true", "false", "null", "~", "",
		"0123", "08", "0o17", "0x1F", "0b11", "1e3", "1_000", "1:30", "190:20:30", "12", "-1", "+1", "1.5", ".5", "1.", ".inf", ".nan", "1e21", "123456789012345678901",
	}
	positions := map[string]string{
		"metadata.labels.team":                            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels:\n    team: %s\n    other: platform\n",
		"metadata.annotations.note":                       "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  annotations:\n    note: %s\n",
		"metadata.name":                                   "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n",
		"spec.tenant":                                     "apiVersion: x/v1\nkind: Reservation\nmetadata: {name: a}\nspec:\n  tenant: %s\n",
		"spec.reservedNodes[1]":                           "apiVersion: x/v1\nkind: Reservation\nmetadata: {name: a}\nspec:\n  reservedNodes:\n  - gpu-01\n  - %s\n",
		"spec.nodeSelector.matchLabels[hardware/pool]":    "apiVersion: x/v1\nkind: Reservation\nmetadata: {name: a}\nspec:\n  nodeSelector:\n    matchLabels:\n      hardware/pool: %s\n",
		"spec.nodeSelector.matchExpressions[0].values[0]": "apiVersion: x/v1\nkind: Reservation\nmetadata: {name: a}\nspec:\n  nodeSelector:\n    matchExpressions:\n    - key: k\n      operator: In\n      values:\n      - %s\n",
	}
	for field, file := range positions {
		for _, text := range traps {
			_, findings := bothPaths(t, fmt.Sprintf(file, text))
			if text == "" && field == "metadata.name" {
				require.True(t, Rejected(findings))
				continue
			}
			require.Len(t, findings, 1, "%s: %q", field, text)
			require.Equal(t, field, findings[0].Field)
			if text == "" {
				require.Contains(t, findings[0].Message, "is empty")
			} else {
				require.Contains(t, findings[0].Message, "quote it")
			}

			for _, quote := range []string{`"`, `'`} {
				objects, findings := bothPaths(t, fmt.Sprintf(file, quote+text+quote))
				require.Empty(t, findings)
				require.Len(t, objects, 1)
				if field == "metadata.labels.team" {
					require.Equal(t, map[string]string{"team": text, "other": "platform"}, objects[0].GetLabels())
				}
			}
		}
	}

	for _, text := range []string{"platform", "a-1", "v1.2.3", "2026-01-02", "1.2.3", "10.0.0.1", "1h", "gpu 1", "yes and no", "onn", "-", "on: off"} {
		if text == "-" || text == "on: off" {
			continue
		}
		objects, findings := bothPaths(t, fmt.Sprintf(positions["metadata.labels.team"], text))
		require.Empty(t, findings, text)
		require.Equal(t, text, objects[0].GetLabels()["team"])
	}

	_, findings := bothPaths(t, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels:\n    reserved.tenant: on\n    cost: 0123\n    run: 1e3\n    team: platform\n")
	require.Len(t, findings, 3, "all of them at once")
	_, findings = bothPaths(t, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels:\n    on: x\n")
	require.Len(t, findings, 1)
	require.Contains(t, findings[0].Message, "key on is read as true: quote it")
}

// Where text is not required, both paths read a scalar as kubectl does.
func TestCases_A08_OtherScalars(t *testing.T) {
	for text, want := range map[string]any{
		"yes": true, "off": false, "true": true, "0123": int64(83), "08": float64(8), "1e3": int64(1000), "1_000": int64(1000), "1:30": "1:30",
		"~": nil, "null": nil, "": nil, "0x1F": int64(31), "1.5": 1.5, `"yes"`: "yes", "2026-01-02": "2026-01-02", "9223372036854775807": int64(9223372036854775807), "1e21": 1e21,
		"!!str 12": "12", "plain text": "plain text", "1.0": int64(1),
	} {
		if text == "08" {
			want = int64(8)
		}
		content := "apiVersion: v1\nkind: X\nmetadata: {name: a}\nspec:\n  list: [1]\n  value: " + text + "\n"
		plain, findings := files{"r.yaml": content}.render(t, "")
		require.Empty(t, findings, text)
		require.Equal(t, want, plain[0].Object["spec"].(map[string]any)["value"], text)
		bothPaths(t, content)
	}
	_, findings := bothPaths(t, "apiVersion: v1\nkind: X\nmetadata: {name: a}\nspec: {value: .inf}\n")
	require.Contains(t, findings[0].Message, "cannot be stored")
	_, findings = bothPaths(t, "apiVersion: v1\nkind: X\nmetadata: {name: a}\nspec:\n  a: ! 12\n  b: &b ! 13\n  c: \"! 14\"\n  d: ! \"15\"\n")
	require.Equal(t, []string{"r.yaml:5: X a: spec.a: tag ! is not supported: quote the value instead", "r.yaml:6: X a: spec.b: tag ! is not supported: quote the value instead"}, lines(findings))
	_, findings = bothPaths(t, "apiVersion: v1\nkind: X\nmetadata: {name: a}\nspec: {a: !!int 1, b: !secret x, c: !!binary aGk=, d: !!set {}}\n")
	require.Len(t, findings, 4)
}

// A08 in what a kustomization adds and patches.
func TestCases_A08_InKustomizations(t *testing.T) {
	for name, c := range map[string]struct{ kustomization, wantField string }{
		"commonLabels":        {"commonLabels: {a: on}\n", "commonLabels.a"},
		"labels":              {"labels: [{pairs: {a: 0123}}]\n", "labels[0].pairs.a"},
		"annotations":         {"commonAnnotations: {a: 1}\n", "commonAnnotations.a"},
		"namespace":           {"namespace: no\n", "namespace"},
		"a prefix":            {"namePrefix: 1\n", "namePrefix"},
		"a patch":             {"patches:\n- patch: |-\n    apiVersion: scheduling.coreweave.cloud/v1alpha1\n    kind: Reservation\n    metadata: {name: r, labels: {a: on}}\n", "metadata.labels.a"},
		"a patch's tenant":    {"patches:\n- patch: '{apiVersion: scheduling.coreweave.cloud/v1alpha1, kind: Reservation, metadata: {name: r}, spec: {tenant: no}}'\n", "spec.tenant"},
		"a JSON patch":        {"patches:\n- target: {kind: Reservation}\n  patch: |-\n    - op: add\n      path: /metadata/labels/a~1b\n      value: 1e3\n", "metadata.labels[a/b]"},
		"a JSON patch's list": {"patches:\n- target: {kind: Reservation}\n  patch: |-\n    - {op: add, path: /spec/reservedNodes, value: [gpu-1, 7]}\n", "spec.reservedNodes[1]"},
		"a JSON patch's item": {"patches:\n- target: {kind: Reservation}\n  patch: |-\n    - {op: add, path: /spec/reservedNodes/-, value: 7}\n", "spec.reservedNodes[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, findings := files{"kustomization.yaml": "resources: [r.yaml]\n" + c.kustomization, "r.yaml": reservation("r")}.render(t, "")
			require.Empty(t, objects)
			require.Len(t, findings, 1, lines(findings))
			require.Equal(t, c.wantField, findings[0].Field)
			require.Contains(t, findings[0].Message, "quote it")
			require.Equal(t, "kustomization.yaml", findings[0].File)
			require.GreaterOrEqual(t, findings[0].Line, 2)
		})
	}
	objects, findings := files{
		"kustomization.yaml": "resources: [r.yaml]\nnamePrefix: \"1\"\ncommonAnnotations: {a: \"on\"}\nlabels: [{pairs: {b: \"0123\"}}]\npatches: [{path: p.yaml}]\n",
		"r.yaml":             reservation("r"), "p.yaml": "apiVersion: scheduling.coreweave.cloud/v1alpha1\nkind: Reservation\nmetadata: {name: r, labels: {c: \"1:30\"}}\nspec: {applyTaint: off}\n",
	}.render(t, "")
	require.Empty(t, findings)
	require.Equal(t, "1r", objects[0].GetName())
	require.Equal(t, map[string]string{"a": "on"}, objects[0].GetAnnotations())
	require.Equal(t, map[string]string{"b": "0123", "c": "1:30"}, objects[0].GetLabels())
	require.Equal(t, false, objects[0].Object["spec"].(map[string]any)["applyTaint"])
}

// A09: a key twice is refused with both lines.
func TestCases_A09_DuplicateKeys(t *testing.T) {
	_, findings := bothPaths(t, reservation("r", "  reservedNodes: [a, b, c, d]\n", strings.Repeat("  # far\n", 40), "  reservedNodes: [a]\n"))
	require.Equal(t, []string{"r.yaml:48: Reservation r: spec.reservedNodes: stands here and in line 7: keep one of them, the other would be lost"}, lines(findings))

	_, findings = bothPaths(t, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels:\n    a: x\n    'a': z\n")
	require.Equal(t, []string{"r.yaml:7: Namespace a: metadata.labels.a: stands here and in line 6: keep one of them, the other would be lost"}, lines(findings))

	_, findings = files{"kustomization.yaml": "resources: [a.yaml]\nnamePrefix: x\nresources: [b.yaml]\n", "a.yaml": namespace("a"), "b.yaml": namespace("b")}.render(t, "")
	require.Equal(t, []string{"kustomization.yaml:3: resources: stands here and in line 1: keep one of them, the other would be lost"}, lines(findings))

	_, findings = files{"kustomization.yaml": "resources: [a.yaml]\npatches:\n- patch: |\n    kind: Namespace\n    kind: Other\n", "a.yaml": namespace("a")}.render(t, "")
	require.Equal(t, []string{"kustomization.yaml:5: Namespace: kind: stands here and in line 4: keep one of them, the other would be lost"}, lines(findings))

	_, findings = files{"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": namespace("a"), "p.yaml": "- op: add\n  op: add\n"}.render(t, "")
	require.Equal(t, "p.yaml", findings[0].File)
}

// A10: every document is accounted for.
func TestCases_A10_Documents(t *testing.T) {
	binding := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n"
	for name, c := range map[string]struct {
		content string
		want    []string
	}{
		"a comment behind the separator":    {namespace("a") + "--- # note\n" + reservation("r"), []string{"Namespace/a", "Reservation/r"}},
		"CRLF and trailing blanks":          {strings.ReplaceAll(namespace("a")+"---   \n"+reservation("r"), "\n", "\r\n"), []string{"Namespace/a", "Reservation/r"}},
		"a licence, and nothing at the end": {"# licence\n---\n" + reservation("r") + "---\n", []string{"Reservation/r"}},
		"a byte order mark":                 {"\uFEFF" + namespace("a"), []string{"Namespace/a"}},
		"an object behind the separator":    {namespace("a") + "--- {apiVersion: v1, kind: Namespace, metadata: {name: b}}\n" + namespace2("c"), []string{"Namespace/a", "Namespace/b", "Namespace/c"}},
		"a separator in a block":            {binding + "data:\n  x: |\n    a\n    ---\n    b\n", []string{"ConfigMap/c"}},
		"an end, then a separator":          {namespace("a") + "...\n---\n" + namespace("b"), []string{"Namespace/a", "Namespace/b"}},
		"a directive":                       {"%YAML 1.1\n---\n" + namespace("a"), []string{"Namespace/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects, findings := bothPaths(t, c.content)
			require.Empty(t, findings)
			var got []string
			for _, o := range objects {
				got = append(got, o.GetKind()+"/"+o.GetName())
			}
			require.Equal(t, c.want, got)
			require.Equal(t, strings.Count(c.content, "kind:"), len(objects))
		})
	}
	for name, c := range map[string]struct{ content, want string }{
		"an end, then no separator": {namespace("a") + "...\n" + namespace("b"), "r.yaml:6: cannot be read as YAML: did not find expected <document start>"},
		"not UTF-8":                 {namespace("a") + "# \x97\n", "r.yaml:5: byte 0x97 is not UTF-8: save the file as UTF-8"},
		"UTF-16":                    {"\xff\xfea\x00", "r.yaml:1: byte 0xff is not UTF-8: save the file as UTF-8"},
		"a control character":       {namespace("a") + "\x01", "r.yaml:5: cannot be read as YAML: control characters are not allowed"},
		"text":                      {"just text\n", "r.yaml:1: holds a single value, not an object: an object is a map with apiVersion, kind and metadata"},
		"null":                      {namespace("a") + "---\nnull\n", "r.yaml:6: holds nothing (null), not an object: an object is a map with apiVersion, kind and metadata"},
		"a tab":                     {"a:\n\tb: c\n", "r.yaml:2: cannot be read as YAML: found character that cannot start any token"},
		"not closed":                {"a: 1\nb: [1,\nc: 3\n", "r.yaml:2: cannot be read as YAML: did not find expected ',' or ']'"},
	} {
		t.Run(name, func(t *testing.T) {
			_, findings := bothPaths(t, c.content)
			require.Equal(t, []string{c.want}, lines(findings))
		})
	}
	objects, findings := files{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": namespace("a"), "latin1.yaml": "\x97"}.render(t, "")
	require.False(t, Rejected(findings), "a file that nothing refers to is not parsed")
	require.Len(t, objects, 1)
}

func namespace2(name string) string { return "---\n" + namespace(name) }

// A12: an alias bomb is refused before anything expands it, in whatever file.
func TestCases_A12_AliasBombs(t *testing.T) {
	bomb := func(indent string) string {
		var b strings.Builder
		b.WriteString(indent + "a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
		for i := 1; i < 9; i++ {
			fmt.Fprintf(&b, "%sa%d: &a%d [%s]\n", indent, i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
		}
		return b.String()
	}
	long := "apiVersion: v1\nkind: X\nmetadata: {name: a}\nspec:\n  t: &t " + strings.Repeat("x", 500_000) + "\n  l: [" + strings.Repeat("*t, ", 60_000) + "]\n"
	for name, f := range map[string]files{
		"plain":              {"r.yaml": namespace("a") + "spec:\n" + bomb("  ")},
		"kz":                 {"kustomization.yaml": "resources: [r.yaml]\n", "r.yaml": namespace("a") + "spec:\n" + bomb("  ")},
		"in a kustomization": {"kustomization.yaml": bomb("")},
		"in a patch file":    {"kustomization.yaml": "resources: [r.yaml]\npatches: [{path: p.yaml}]\n", "r.yaml": namespace("a"), "p.yaml": bomb("")},
		"in a patch":         {"kustomization.yaml": "resources: [r.yaml]\npatches:\n- patch: |\n" + bomb("    "), "r.yaml": namespace("a")},
		"in replacements":    {"kustomization.yaml": "resources: [r.yaml]\nreplacements: [{path: p.yaml}]\n", "r.yaml": namespace("a"), "p.yaml": bomb("")},
		"in configurations":  {"kustomization.yaml": "resources: [r.yaml]\nconfigurations: [p.yaml]\n", "r.yaml": namespace("a"), "p.yaml": bomb("")},
		"of one long text":   {"r.yaml": long},
		"of many documents":  {"r.yaml": strings.Repeat("a: &a ["+strings.Repeat("x,", 90)+"]\nb: ["+strings.Repeat("*a,", 900)+"]\n---\n", 100)},
		"in merges":          {"r.yaml": "a: &a {x: 1}\n" + merges()},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			limits := Limits{}
			if name == "of many documents" {
				limits.Nodes = 10_000 // this one is stopped only when all that is allowed is used up
			}
			_, findings, err := Render(t.Context(), f.tree(), "", limits)
			require.NoError(t, err)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20))
			require.True(t, Rejected(findings))
		})
	}
	require.Less(t, len(bomb("")), 1000)

	_, findings := files{"r.yaml": namespace("a") + "spec:\n" + bomb("  ")}.render(t, "")
	require.Contains(t, lines(findings)[0], "too large with its aliases expanded")
}

func merges() string {
	var b strings.Builder
	last := "a"
	for i := range 30 {
		fmt.Fprintf(&b, "m%d: &m%d {p: {<<: *%s}, q: {<<: *%s}}\n", i, i, last, last)
		last = fmt.Sprintf("m%d", i)
	}
	return b.String()
}

// A12 (c), (d): ordinary anchors work; they do not cross documents.
func TestCases_A12_Anchors(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: X\nmetadata: {name: a}\nspec:\n  nodes: &nodes [gpu-01, gpu-02, gpu-03]\n")
	for i := range 60 {
		fmt.Fprintf(&b, "  n%d: *nodes\n", i)
	}
	objects, findings := bothPaths(t, b.String())
	require.Empty(t, findings)
	spec := objects[0].Object["spec"].(map[string]any)
	require.Equal(t, []any{"gpu-01", "gpu-02", "gpu-03"}, spec["n59"])

	_, findings = bothPaths(t, namespace("a")+"x: &x 1\n---\n"+namespace("b")+"x: *x\n")
	require.Equal(t, []string{`r.yaml:11: Namespace b: x: unknown anchor "x": an alias needs an anchor before it, in the same document`}, lines(findings))
	_, findings = bothPaths(t, namespace("a")+"x: *x\n")
	require.Equal(t, []string{`r.yaml:5: unknown anchor "x": an alias needs an anchor before it, in the same document`}, lines(findings))
	_, findings = bothPaths(t, namespace("a")+"x: &x [*x]\n")
	require.Equal(t, []string{`r.yaml:5: Namespace a: x[0]: alias "x" stands inside of its own anchor`}, lines(findings))

	objects, findings = bothPaths(t, "apiVersion: v1\nkind: X\nmetadata: {name: a}\nspec:\n  d: &d {a: 1, b: 2}\n  e: &e {b: 3, c: 4}\n  m: {<<: *d, b: 5}\n  l: {<<: [*d, *e], d: 6}\n")
	require.Empty(t, findings)
	spec = objects[0].Object["spec"].(map[string]any)
	require.Equal(t, map[string]any{"a": int64(1), "b": int64(5)}, spec["m"])
	require.Equal(t, map[string]any{"a": int64(1), "b": int64(2), "c": int64(4), "d": int64(6)}, spec["l"])
	_, findings = bothPaths(t, namespace("a")+"x: {<<: 1}\n")
	require.Len(t, findings, 1)
	_, findings = bothPaths(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {a: *t, b: *t}}\nx: 1\n")
	require.True(t, Rejected(findings))
	_, findings = bothPaths(t, "apiVersion: v1\nx: &t on\nkind: Namespace\nmetadata: {name: a, labels: {a: *t}}\n")
	require.Equal(t, "metadata.labels.a", findings[0].Field, "an alias is where it stands")
}
