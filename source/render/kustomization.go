package render

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
)

func isKustomizationName(name string) bool {
	return slices.Contains(konfig.RecognizedKustomizationFileNames(), name)
}

// kustomization is one that was read, checked, and put into memory for
// kustomize, with all that it refers to.
type kustomization struct {
	// folder is its folder without links, file the kustomization in it as it may
	// be shown.
	folder, file string
	// memory is its folder's name in memory.
	memory string
	spec   types.Kustomization
	root   *yaml.Node
	// written are the objects that it takes in, in all.
	written []Object
	// broken says that it, or one that it takes in, must not be built.
	broken bool
	// full says that it takes in too many objects, which is said once.
	full bool
}

// place is a line in a file, at which something is asked for.
type place struct {
	file string
	line int
}

// load reads the kustomization of a folder (real, without links; shown as it
// was asked for from a place) and everything below it. The result may be
// broken; why has been reported then.
func (r *renderer) load(ctx context.Context, from place, shown, real string) (*kustomization, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if at := slices.Index(r.loading, real); at >= 0 {
		cycle := strings.Join(append(r.loading[at:len(r.loading):len(r.loading)], real), " -> ")
		r.report(from.file, from.line, "these kustomizations take in each other: %s", cycle)
		return &kustomization{broken: true}, nil
	}
	if k := r.kustomizations[real]; k != nil {
		return k, nil
	}
	k := &kustomization{folder: real, memory: fmt.Sprintf("d%05d", len(r.kustomizations)), broken: true}
	r.kustomizations[real] = k
	if len(r.loading) >= r.limits.Depth {
		r.report(from.file, from.line, "kustomizations are nested deeper than %d", r.limits.Depth)
		return k, nil
	}
	r.loading = append(r.loading, real)
	defer func() { r.loading = r.loading[:len(r.loading)-1] }()

	ok, err := r.readKustomization(k, from, shown)
	if !ok {
		return k, err
	}
	k.broken = false
	if err := r.gather(ctx, k); err != nil || k.broken {
		k.broken = true
		return k, err
	}
	return k, r.remember(k)
}

// readKustomization finds the file, decodes it strictly and checks its fields.
func (r *renderer) readKustomization(k *kustomization, from place, shown string) (bool, error) {
	entries, err := fs.ReadDir(r.tree.fsys, k.folder)
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", shown, err)
	}
	var names []string
	for _, e := range entries {
		if isKustomizationName(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if len(names) != 1 {
		message := "folder %s has no kustomization.yaml"
		if len(names) > 1 {
			message = "folder %s has more than one kustomization: " + strings.Join(names, ", ")
		}
		r.report(from.file, from.line, message, shown)
		return false, nil
	}
	k.file = path.Join(shown, names[0])
	real, info, err := r.tree.resolve(path.Join(k.folder, names[0]))
	switch {
	case explained(err):
		r.report(k.file, 0, "%v", err)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s: %w", k.file, err)
	case info.IsDir():
		r.report(k.file, 0, "is a folder")
		return false, nil
	}
	data, ok, err := r.read(place{file: k.file}, k.file, real)
	if !ok {
		return false, err
	}
	r.used[real] = true
	return r.decodeKustomization(k, data), nil
}

func (r *renderer) decodeKustomization(k *kustomization, data []byte) bool {
	d := r.decoder(k.file)
	defer func() { r.findings = append(r.findings, d.findings...) }()
	documents := d.documents(data)
	if len(d.findings) > 0 {
		return false
	}
	if len(documents) != 1 || documents[0].root.Kind != yaml.MappingNode {
		d.report(0, "holds %d documents: a kustomization is one map", len(documents))
		return false
	}
	k.root = documents[0].root
	c := converter{decoder: d, text: kustomizationTextFields}
	fields := c.mapping(k.root, nil)
	for i := 0; i+1 < len(k.root.Content); i += 2 {
		if why := refusal(k.root.Content[i].Value); why != "" {
			d.reportField(k.root.Content[i].Line, field{}.key(k.root.Content[i].Value), "%s", why)
		}
	}
	if len(d.findings) > 0 {
		return false
	}
	text, err := json.Marshal(fields)
	if err == nil {
		err = k.spec.Unmarshal(text)
	}
	if err != nil {
		d.report(0, "%v", err)
		return false
	}
	// Only moves deprecated fields to where they belong now.
	k.spec.FixKustomization()
	common := &k.spec.CommonLabels //lint:ignore SA1019 people's files still have it
	if len(*common) > 0 {
		// As "kustomize edit fix" does; the old field makes it write to stderr at
		// every build.
		k.spec.Labels = append(k.spec.Labels, types.Label{Pairs: *common, IncludeSelectors: true})
		*common = nil
	}
	return true
}

// refusal says why a field of a kustomization is refused, or "". The list is
// exact in its letters, because kustomize itself is not: to it HELMCHARTS is
// helmCharts.
func refusal(name string) string {
	switch name {
	case "apiVersion", "kind", "metadata", "namePrefix", "nameSuffix", "namespace", "commonLabels", "labels",
		"commonAnnotations", "patchesStrategicMerge", "patchesJson6902", "patches", "images", "imageTags",
		"replacements", "replicas", "vars", "sortOptions", "resources", "components", "crds", "bases",
		"generatorOptions", "configurations", "openapi", "buildMetadata":
		return ""
	case "helmCharts", "helmGlobals", "helmChartInflationGenerator":
		return "is not supported: Helm is never run here, commit what it renders"
	case "generators", "transformers", "validators":
		return "is not supported: plugins and functions are never run here, commit what they make"
	case "configMapGenerator", "secretGenerator":
		return "is not supported: ConfigMaps and Secrets do not belong in this repository"
	default:
		return "is not a field of a kustomization"
	}
}

// unlisted warns of YAML files beside a kustomization that takes them in
// nowhere: kustomize leaves them out without a word.
func (r *renderer) unlisted() error {
	for folder, k := range r.kustomizations {
		if k.root == nil || k.broken {
			continue
		}
		entries, err := fs.ReadDir(r.tree.fsys, folder)
		if err != nil {
			return fmt.Errorf("reading %s: %w", folder, err)
		}
		for _, e := range entries {
			name := path.Join(folder, e.Name())
			if e.IsDir() || !isYAML(name) || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if real, info, err := r.tree.resolve(name); err == nil && !info.IsDir() && !r.used[real] {
				r.findings = append(r.findings, Finding{Warning: true, File: name, Message: "is not listed in " + k.file + ", so it has no effect"})
			}
		}
	}
	return nil
}
