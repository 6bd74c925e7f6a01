package render

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func TestKustomizationsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		kustomization string
		more          files
		want          string
	}{
		"https":                       {kustomization: "resources:\n- https://example.com/x.yaml\n", want: `k/kustomization.yaml:2: "https://example.com/x.yaml" is not in this repository: nothing is fetched from elsewhere, commit a copy`},
		"with a token":                {kustomization: "resources: ['https://ada:hunter2@example.com/x.yaml']\n", want: `"https://example.com/x.yaml" is not in this repository`},
		"ssh":                         {kustomization: "resources: ['ssh://git@example.com/x']\n", want: "is not in this repository"},
		"scp":                         {kustomization: "resources: ['git@github.com:org/repo']\n", want: "is not in this repository"},
		"a host without a scheme":     {kustomization: "resources: [github.com/org/repo]\n", want: "is not in this repository"},
		"a ref":                       {kustomization: "resources: ['org/repo?ref=v1']\n", want: "is not in this repository"},
		"git::":                       {kustomization: "components: ['git::https://example.com/x']\n", want: "is not in this repository"},
		"bases":                       {kustomization: "bases: ['https://example.com/x']\n", want: "is not in this repository"},
		"a remote component":          {kustomization: "components: ['https://example.com/x']\n", want: "is not in this repository"},
		"a remote patch":              {kustomization: "resources: [r.yaml]\npatches: [{path: 'https://example.com/x'}]\n", want: "is not in this repository"},
		"a remote patch, in capitals": {kustomization: "resources: [r.yaml]\npatches: [{PATH: 'https://example.com/x'}]\n", want: "is not in this repository"},
		"a remote strategic merge":    {kustomization: "resources: [r.yaml]\npatchesStrategicMerge: ['https://example.com/x']\n", want: "is not in this repository"},
		"a remote JSON patch":         {kustomization: "resources: [r.yaml]\npatchesJson6902: [{path: 'https://example.com/x', target: {kind: X}}]\n", want: "is not in this repository"},
		"remote replacements":         {kustomization: "resources: [r.yaml]\nreplacements: [{path: 'https://example.com/x'}]\n", want: "is not in this repository"},
		"remote crds":                 {kustomization: "resources: [r.yaml]\ncrds: ['https://example.com/x']\n", want: "is not in this repository"},
		"a remote schema":             {kustomization: "resources: [r.yaml]\nopenapi: {path: 'https://example.com/x'}\n", want: "is not in this repository"},
		"remote configurations":       {kustomization: "resources: [r.yaml]\nconfigurations: ['https://example.com/x']\n", want: "is not in this repository"},
		"absolute":                    {kustomization: "resources: [/etc/passwd]\n", want: `"/etc/passwd" is absolute`},
		"absolute crds":               {kustomization: "resources: [r.yaml]\ncrds: [/etc/passwd]\n", want: `"/etc/passwd" is absolute`},
		"absolute schema":             {kustomization: "resources: [r.yaml]\nopenapi: {path: /etc/passwd}\n", want: `"/etc/passwd" is absolute`},
		"above the root":              {kustomization: "resources: [../../etc/passwd]\n", want: `"../../etc/passwd" is above the repository's root`},
		"missing":                     {kustomization: "resources:\n- r.yaml\n- gone.yaml\n", want: `k/kustomization.yaml:3: "gone.yaml" does not exist`},
		"missing patch":               {kustomization: "resources: [r.yaml]\npatches: [{path: gone.yaml}]\n", want: `"gone.yaml" does not exist`},
		"a name that is empty":        {kustomization: "resources: ['']\n", want: "without a name"},
		"a file as a folder":          {kustomization: "resources: [r.yaml/x]\n", want: `"r.yaml/x" does not exist`},
		"a folder without one":        {kustomization: "resources: [sub]\n", more: files{"k/sub/x.yaml": namespace("x")}, want: "k/kustomization.yaml:1: folder k/sub has no kustomization.yaml"},
		"a folder as a patch":         {kustomization: "resources: [r.yaml]\npatches: [{path: sub}]\n", more: files{"k/sub/x.yaml": namespace("x")}, want: `"sub" is a folder`},
		"a file as a component":       {kustomization: "components: [r.yaml]\n", want: "a component is a folder"},
		"two of them":                 {kustomization: "resources: []\n", more: files{"k/Kustomization": "resources: []\n"}, want: "folder k has more than one kustomization: Kustomization, kustomization.yaml"},
		"itself":                      {kustomization: "resources: [../k]\n", want: "k/kustomization.yaml:1: these kustomizations take in each other: k -> k"},
		"a cycle":                     {kustomization: "resources: [../b]\n", more: files{"b/kustomization.yaml": "resources: [../c]\n", "c/kustomization.yaml": "# c\nresources: [../k]\n"}, want: "c/kustomization.yaml:2: these kustomizations take in each other: k -> b -> c -> k"},
		"a cycle by a link":           {kustomization: "resources: [b]\n", more: files{"k/b": "-> ../k"}, want: "take in each other: k -> k"},
		"helmCharts":                  {kustomization: "helmCharts: [{name: x}]\n", want: "k/kustomization.yaml:1: helmCharts: is not supported: Helm"},
		"HELMCHARTS":                  {kustomization: "HELMCHARTS: [{name: x}]\n", want: "HELMCHARTS: is not a field of a kustomization"},
		"helmGlobals":                 {kustomization: "helmGlobals: {chartHome: x}\n", want: "Helm"},
		"the old Helm":                {kustomization: "helmChartInflationGenerator: []\n", want: "Helm"},
		"generators":                  {kustomization: "generators: [g.yaml]\n", want: "plugins"},
		"transformers":                {kustomization: "transformers: [g.yaml]\n", want: "plugins"},
		"validators":                  {kustomization: "validators: [g.yaml]\n", want: "plugins"},
		"Transformers":                {kustomization: "Transformers: [g.yaml]\n", want: "not a field"},
		"configMapGenerator":          {kustomization: "configMapGenerator: [{name: x, files: [/etc/passwd]}]\n", want: "ConfigMaps and Secrets"},
		"secretGenerator":             {kustomization: "secretGenerator: [{name: x}]\n", want: "ConfigMaps and Secrets"},
		"an unknown field":            {kustomization: "resources: [r.yaml]\nresource: [x]\n", want: "k/kustomization.yaml:2: resource: is not a field"},
		"an unknown field further in": {kustomization: "resources: [r.yaml]\npatches: [{file: x}]\n", want: `unknown field "file"`},
		"not a list":                  {kustomization: "resources: r.yaml\n", want: "cannot unmarshal string"},
		"not a map":                   {kustomization: "[r.yaml]\n", want: "a kustomization is one map"},
		"two documents":               {kustomization: "resources: [r.yaml]\n---\nresources: []\n", want: "holds 2 documents"},
		"nothing":                     {kustomization: "# nothing\n", want: "holds 0 documents"},
		"another kind":                {kustomization: "kind: Deployment\nresources: [r.yaml]\n", want: "kind should be Kustomization"},
		"a patch that hits nothing":   {kustomization: "resources: [r.yaml]\npatches:\n- patch: |-\n    apiVersion: v1\n    kind: Namespace\n    metadata: {name: gone}\n", want: "kustomize: no resource matches strategic merge patch"},
		"the same object twice":       {kustomization: "resources: [r.yaml, s.yaml]\n", more: files{"k/s.yaml": reservation("r")}, want: "may not add resource with an already registered id"},
		"a broken base":               {kustomization: "resources: [../b]\n", more: files{"b/kustomization.yaml": "resources: [x.yaml]\n", "b/x.yaml": "a: b: c\n"}, want: "b/x.yaml:1: cannot be read as YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			f := files{"k/kustomization.yaml": c.kustomization, "k/r.yaml": reservation("r")}
			for name, content := range c.more {
				f[name] = content
			}
			objects, findings := f.render(t, "k")
			require.Empty(t, objects)
			require.True(t, Rejected(findings))
			text := strings.Join(lines(findings), "\n")
			require.Contains(t, text, c.want)
			require.NotContains(t, text, "hunter2")
			require.NotRegexp(t, `\b[df]0000\d`, text, "names in memory are nobody's business")
		})
	}
}

// Whatever a kustomization says, nothing is asked of the network, not even when
// the repository has a folder that looks like a URL.
func TestKustomizeUsesNoNetwork(t *testing.T) {
	var hits atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		_, _ = w.Write([]byte(namespace("evil")))
	}))
	t.Cleanup(server.Close)
	url := server.URL + "/x.yaml"
	folder := strings.Replace(url, "//", "/", 1)
	for _, k := range []string{
		"resources: ['" + url + "']\n", "Resources: ['" + url + "']\n", "resources: ['./" + folder + "']\n",
		"components: ['" + url + "']\n", "bases: ['" + url + "']\n", "crds: ['" + url + "']\n", "configurations: ['" + url + "']\n",
		"resources: [r.yaml]\npatches: [{path: '" + url + "'}]\n", "resources: [r.yaml]\npatches: [{Path: '" + url + "'}]\n",
		"resources: [r.yaml]\nreplacements: [{path: '" + url + "'}]\n", "resources: [r.yaml]\npatchesStrategicMerge: ['" + url + "']\n",
		"resources: [r.yaml]\nopenapi: {path: '" + url + "'}\n", "resources: [r.yaml]\nopenapi: {Path: '" + url + "'}\n",
		"transformers: ['" + url + "']\n", "generators: ['" + url + "']\n",
	} {
		files{"kustomization.yaml": k, "r.yaml": namespace("r"), folder: namespace("here")}.render(t, "")
	}
	objects, findings := files{"kustomization.yaml": "resources: ['./" + folder + "', ./github.com/org/repo]\n", folder: namespace("here"),
		"github.com/org/repo/kustomization.yaml": "resources: [x.yaml]\n", "github.com/org/repo/x.yaml": namespace("x")}.render(t, "")
	require.Empty(t, findings)
	require.Len(t, objects, 2, "a folder of the repository may have any name")
	require.Zero(t, hits.Load())
}

// What kustomize gets here is rewritten; the result must be kustomize's own.
func TestSameAsKustomize(t *testing.T) {
	base := files{
		"base/kustomization.yaml": "resources: [r.yaml, q.yaml]\n",
		"base/r.yaml":             reservation("r", "  reservedNodes: [a, b]\n  nodeSelector: {matchLabels: {pool: h100}}\n"),
		"base/q.yaml":             "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: foo, labels: {a: b}, annotations: {c: d}}\nspec: {hard: {requests.nvidia.com/gpu: \"32\", pods: 10}}\n---\n" + namespace("foo"),
		"comp/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnameSuffix: -c\nresources: [x.yaml]\n",
		"comp/x.yaml":             namespace("x"),
	}
	for name, f := range map[string]files{
		"nothing more":           {"k/kustomization.yaml": "resources: [../base]\n"},
		"bases":                  {"k/kustomization.yaml": "bases: [../base]\n"},
		"prefix, suffix":         {"k/kustomization.yaml": "resources: [../base]\nnamePrefix: p-\nnameSuffix: -s\n"},
		"namespace":              {"k/kustomization.yaml": "resources: [../base]\nnamespace: ops\n"},
		"labels":                 {"k/kustomization.yaml": "resources: [../base]\ncommonLabels: {x: \"1\"}\nlabels:\n- pairs: {yy: \"on\"}\n  includeSelectors: true\n- pairs: {z: w}\n  includeTemplates: true\ncommonAnnotations: {nn: \"0123\"}\n"},
		"a strategic merge":      {"k/kustomization.yaml": "resources: [../base]\npatches: [{path: p.yaml}]\n", "k/p.yaml": "apiVersion: scheduling.coreweave.cloud/v1alpha1\nkind: Reservation\nmetadata: {name: r}\nspec: {reservedNodes: [c], applyTaint: false, nodeSelector: null}\n"},
		"an old strategic merge": {"k/kustomization.yaml": "resources: [../base]\npatchesStrategicMerge:\n- p.yaml\n- |-\n  apiVersion: v1\n  kind: Namespace\n  metadata: {name: foo, labels: {l: m}}\n", "k/p.yaml": "apiVersion: scheduling.coreweave.cloud/v1alpha1\nkind: Reservation\nmetadata: {name: r}\nspec: {tenant: beta}\n"},
		"JSON patches":           {"k/kustomization.yaml": "resources: [../base]\npatches:\n- path: p.yaml\n  target: {kind: Reservation, name: r.*}\n- patch: '[{\"op\": \"replace\", \"path\": \"/spec/tenant\", \"value\": \"gamma\"}]'\n  target: {group: scheduling.coreweave.cloud, labelSelector: \"\"}\n  options: {allowNameChange: true}\n", "k/p.yaml": "- op: add\n  path: /spec/reservedNodes/-\n  value: c\n- {op: remove, path: /spec/nodeSelector}\n"},
		"an old JSON patch":      {"k/kustomization.yaml": "resources: [../base]\npatchesJson6902:\n- path: p.json\n  target: {version: v1, kind: Namespace, name: foo}\n- patch: |-\n    - {op: add, path: /metadata/labels, value: {a: b}}\n  target: {version: v1, kind: Namespace, name: foo}\n", "k/p.json": "[{\"op\": \"add\", \"path\": \"/metadata/annotations\", \"value\": {\"x\": \"y\"}}]\n"},
		"a delete":               {"k/kustomization.yaml": "resources: [../base]\npatches:\n- patch: |-\n    $patch: delete\n    apiVersion: v1\n    kind: Namespace\n    metadata: {name: foo}\n"},
		"replacements":           {"k/kustomization.yaml": "resources: [../base]\nreplacements:\n- source: {kind: Namespace, name: foo, fieldPath: metadata.name}\n  targets:\n  - select: {kind: Reservation}\n    fieldPaths: [spec.tenant]\n- path: r.yaml\n", "k/r.yaml": "source: {kind: Reservation, fieldPath: spec.tenant}\ntargets:\n- select: {kind: ResourceQuota}\n  fieldPaths: [metadata.labels.tenant]\n  options: {create: true}\n"},
		"vars":                   {"k/kustomization.yaml": "resources: [../base, v.yaml]\nvars:\n- name: NS\n  objref: {apiVersion: v1, kind: Namespace, name: foo}\n", "k/v.yaml": reservation("v", "  x: $(NS)\n")},
		"a component":            {"k/kustomization.yaml": "resources: [../base]\ncomponents: [../comp]\n"},
		"order":                  {"k/kustomization.yaml": "resources: [../base]\nsortOptions: {order: legacy}\n"},
		"managed by":             {"k/kustomization.yaml": "resources: [../base]\nbuildMetadata: [managedByLabel]\n"},
		"configurations":         {"k/kustomization.yaml": "resources: [../base]\nnamePrefix: p-\nconfigurations: [c.yaml]\n", "k/c.yaml": "namePrefix:\n- {path: spec/tenant, kind: Reservation}\n"},
		"a link":                 {"k/kustomization.yaml": "resources: [r.yaml]\n", "k/r.yaml": "-> ../base/r.yaml"},
		"images and replicas":    {"k/kustomization.yaml": "resources: [../base, d.yaml]\nimages: [{name: nginx, newTag: \"1.0\"}]\nreplicas: [{name: d, count: 3}]\n", "k/d.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {spec: {containers: [{name: c, image: nginx}]}}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, content := range base {
				f[name] = content
			}
			want := original(t, f, "k")
			objects, findings := f.render(t, "k")
			require.False(t, Rejected(findings), lines(findings))
			var got []map[string]any
			for _, o := range objects {
				got = append(got, o.Object)
				require.NotEmpty(t, o.File)
			}
			require.Empty(t, cmp.Diff(want, got))
		})
	}
}

// original is what kustomize itself makes of the files as they are.
func original(t *testing.T, f files, folder string) []map[string]any {
	t.Helper()
	memory := filesys.MakeFsInMemory()
	for name, content := range f {
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			content = f[path.Join(path.Dir(name), target)]
		}
		require.NoError(t, memory.WriteFile("/"+name, []byte(content)))
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	slot <- struct{}{}
	defer func() { <-slot }()
	built, err := krusty.MakeKustomizer(options).Run(memory, "/"+folder)
	require.NoError(t, err)
	var objects []map[string]any
	for _, r := range built.Resources() {
		text, err := r.MarshalJSON()
		require.NoError(t, err)
		var o map[string]any
		require.NoError(t, json.Unmarshal(text, &o))
		// This package has whole numbers as int64.
		objects = append(objects, wholeNumbers(o).(map[string]any))
	}
	return objects
}

func wholeNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = wholeNumbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = wholeNumbers(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

// A patch that replaces all annotations takes the note of the place with it.
func TestObjectWithoutItsPlace(t *testing.T) {
	objects, findings := files{
		"k/kustomization.yaml": "resources: [r.yaml]\npatches:\n- patch: |-\n    - {op: add, path: /metadata/annotations, value: {a: b}}\n  target: {kind: Reservation}\n",
		"k/r.yaml":             reservation("r"),
	}.render(t, "k")
	require.Empty(t, findings)
	require.Equal(t, []string{"k/kustomization.yaml:0 Reservation/r"}, lines(objects))
	require.Equal(t, map[string]string{"a": "b"}, objects[0].GetAnnotations())
}

func TestObjectsOfKustomizationsAreBounded(t *testing.T) {
	f := files{"0/kustomization.yaml": "resources: [x.yaml]\n", "0/x.yaml": namespace("x")}
	for i := 1; i < 12; i++ {
		before := string(rune('0' + i - 1))
		if i > 10 {
			before = string(rune('a' + i - 11))
		}
		here := string(rune('0' + i))
		if i >= 10 {
			here = string(rune('a' + i - 10))
		}
		f[here+"/kustomization.yaml"] = "resources: [" + strings.TrimSuffix(strings.Repeat("../"+before+", ", 10), ", ") + "]\n"
	}
	_, findings := f.render(t, "b")
	require.True(t, Rejected(findings))
	require.Contains(t, strings.Join(lines(findings), "\n"), "takes in more than 2000 objects")
}

func TestPanicBecomesAFinding(t *testing.T) {
	_, err := run(memory{}, "/d00000", DefaultLimits())
	require.ErrorContains(t, err, "cannot build this")
}
