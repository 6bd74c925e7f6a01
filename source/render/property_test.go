package render

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	k8syaml "sigs.k8s.io/yaml"
)

// Whatever is written, a file gives the same objects by either path.
func TestPlainAndKustomizeAgree(t *testing.T) {
	accepted := 0
	for seed := range uint64(150) {
		g := generator{rand.New(rand.NewPCG(seed, 0))}
		var b strings.Builder
		for i := range 1 + g.IntN(3) {
			fmt.Fprintf(&b, "---\napiVersion: %s/v1\nkind: Kind%d\nmetadata:\n  name: name-%d\nspec:\n%s", g.word(), g.IntN(3), i, g.value(1, 4))
		}
		plain, findings := files{"r.yaml": b.String()}.render(t, "")
		kz, kzFindings := files{"r.yaml": b.String(), "kustomization.yaml": "resources: [r.yaml]\n"}.render(t, "")
		require.Empty(t, cmp.Diff(findings, kzFindings), "seed %d:\n%s", seed, b.String())
		if Rejected(findings) {
			continue
		}
		accepted++
		require.Empty(t, cmp.Diff(plain, kz), "seed %d:\n%s", seed, b.String())
	}
	require.Greater(t, accepted, 50, "or this tests nothing")
}

type generator struct{ *rand.Rand }

func (g generator) word() string {
	words := []string{"alpha", "beta", "gpu-01", "pool", "x", "labels", "annotations", "matchLabels", "values", "status", "items"}
	return words[g.IntN(len(words))]
}

func (g generator) scalar() string {
	scalars := []string{
		"text", "two words", "on", "no", "true", "~", "", "12", "-3", "0123", "08", "1e3", "1_000", "1:30", "0x1F", "1.5", "1e21", "2026-01-02",
		`"on"`, `'0123'`, `"1e3"`, `"a\nb\tc\u00e9"`, `'it''s'`, `"true"`, `"~"`, `""`, "!!str 7", "12345678901234567890", "é", "{}", "[]", "\"\U0001F600\"", `"<&>"`,
	}
	return scalars[g.IntN(len(scalars))]
}

// value is a block at an indentation.
func (g generator) value(indent, depth int) string {
	blank := strings.Repeat("  ", indent)
	var b strings.Builder
	list := g.IntN(3) == 0
	for i := range 1 + g.IntN(3) {
		key := fmt.Sprintf("%s%d:", g.word(), i)
		if g.IntN(2) == 0 {
			key = fmt.Sprintf("%q:", fmt.Sprintf("%s/%d", g.word(), i))
		}
		if list {
			key = "-"
		}
		switch {
		case depth > 0 && g.IntN(3) == 0:
			b.WriteString(blank + key + "\n" + g.value(indent+1, depth-1))
		case g.IntN(8) == 0:
			b.WriteString(blank + key + " |\n" + blank + "  # not a comment\n\n" + blank + "  ---\n")
		default:
			b.WriteString(blank + key + " " + g.scalar() + " # comment\n")
		}
	}
	return b.String()
}

// FuzzDecode: no text makes a panic; what is accepted is what kubectl's reader
// makes of it; and it gives the same result when written and read again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		reservation("r", "  reservedNodes: [a, b]\n"),
		namespace("a") + "--- # x\n" + namespace("b") + "...\n---\n",
		"a: &a [1, 2]\nb: *a\nc: {<<: {d: e}, f: g}\n",
		"a: 1\na: 2\n", "a: on\nb: 0123\nc: 1e3\n", "\uFEFFa: b\r\n", "x: |\n  ---\n  y\n", "- a\n- b\n", "a: !!str 1\nb: !x y\n", "? a\n: b\n", "a: 'x\n\n  y'\n",
		"%YAML 1.1\n---\na: b\n", "a: *b\n", "a: &a [*a]\n", "a: \x97", "a:\n\t- b", "{a: b, c: [d, {e: f}]}", "a: >-\n  x\n  y\n", "--- text\n", "a: ---\n", "a: .inf",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := &decoder{file: "f.yaml", limits: Limits{Nodes: 10_000}.withDefaults()}
		documents := d.documents([]byte(text))
		if len(d.findings) > 0 || len(documents) != 1 {
			return
		}
		c := &converter{decoder: d, text: textFields}
		value := c.value(documents[0].root, nil)
		if len(d.findings) > 0 {
			return
		}
		got, err := json.Marshal(value)
		require.NoError(t, err)

		again := &decoder{file: "f.yaml", limits: d.limits}
		second := again.documents(got)
		require.Empty(t, again.findings, string(got))
		require.Len(t, second, 1)
		require.Equal(t, value, (&converter{decoder: again}).value(second[0].root, nil))

		want, err := k8syaml.YAMLToJSON([]byte(strings.TrimPrefix(text, bom)))
		if err == nil && string(want) != "null" {
			require.JSONEq(t, string(want), string(got))
		}
	})
}

func FuzzRender(f *testing.F) {
	f.Add("resources: [r.yaml]\n", namespace("a"))
	f.Add("resources: [r.yaml]\npatches: [{path: r.yaml}]\n", reservation("r"))
	f.Add("bases: [.]\nnamePrefix: x\n", "a: b")
	f.Fuzz(func(t *testing.T, kustomization, resource string) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		objects, findings, err := Render(ctx, files{"kustomization.yaml": kustomization, "r.yaml": resource}.tree(), "", Limits{Nodes: 1000, Objects: 20})
		require.NoError(t, err)
		for _, o := range objects {
			require.NotContains(t, o.GetAnnotations(), writtenAt)
			require.Empty(t, o.incomplete())
		}
		for _, finding := range findings {
			require.NotContains(t, finding.String(), "\n")
		}
	})
}
