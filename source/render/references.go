package render

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"
)

// gather follows every reference of a kustomization and rewrites it to the name
// of what it refers to in memory. So kustomize never sees a path or a URL that
// somebody wrote, and cannot be led anywhere by one.
func (r *renderer) gather(ctx context.Context, k *kustomization) error {
	var resources, components []string
	for _, name := range k.spec.Resources {
		memory, err := r.resource(ctx, k, name)
		if err != nil {
			return err
		}
		if memory != "" {
			resources = append(resources, memory)
		}
	}
	for _, name := range k.spec.Components {
		memory, err := r.component(ctx, k, name)
		if err != nil {
			return err
		}
		components = append(components, memory)
	}
	k.spec.Resources, k.spec.Components = resources, components
	return r.gatherFiles(k)
}

// gatherFiles is gather for all that is not a resource.
func (r *renderer) gatherFiles(k *kustomization) error {
	s := &k.spec
	merges := s.PatchesStrategicMerge //lint:ignore SA1019 people's files still have it
	for i := range merges {
		if err := r.strategicMerge(k, &merges[i]); err != nil {
			return err
		}
	}
	old := s.PatchesJson6902 //lint:ignore SA1019 people's files still have it
	for _, patches := range [][]types.Patch{s.Patches, old} {
		for i := range patches {
			r.inline(k, &patches[i].Patch)
			if err := r.other(k, &patches[i].Path, rolePatch); err != nil {
				return err
			}
		}
	}
	for i := range s.Replacements {
		if err := r.other(k, &s.Replacements[i].Path, roleOther); err != nil {
			return err
		}
	}
	for _, names := range [][]string{s.Crds, s.Configurations} {
		for i := range names {
			if err := r.other(k, &names[i], roleOther); err != nil {
				return err
			}
		}
	}
	if name, ok := s.OpenAPI["path"]; ok {
		err := r.other(k, &name, roleOther)
		s.OpenAPI["path"] = name
		return err
	}
	return nil
}

// remote recognises what kustomize would fetch from elsewhere.
var remote = regexp.MustCompile(`://|^[^/]*@[^/]*:|^git::|^(gh|gs|s3|hg|oci):|^(www\.)?(github|gitlab|bitbucket)\.(com|org)[:/]|\?(ref|version|timeout|submodules)=`)

// refer resolves a reference. What cannot be referred to is reported, and makes
// the kustomization broken.
func (r *renderer) refer(k *kustomization, name string) (shown, real string, info fs.FileInfo, err error) {
	at := k.place(name)
	refuse := func(format string, args ...any) {
		r.report(at.file, at.line, format, args...)
		k.broken = true
	}
	switch {
	case name == "":
		refuse("refers to a file without a name")
		return "", "", nil, nil
	case remote.MatchString(name):
		refuse("%q is not in this repository: nothing is fetched from elsewhere, commit a copy", withoutUserinfo(name))
		return "", "", nil, nil
	case path.IsAbs(name):
		refuse("%q is absolute: write it relative to this file", name)
		return "", "", nil, nil
	}
	real, info, err = r.tree.resolve(k.folder + "/" + name)
	if explained(err) {
		refuse("%q %v", name, err)
		return "", "", nil, nil
	}
	if err != nil {
		return "", "", nil, fmt.Errorf("reading %s: %w", path.Join(k.folder, name), err)
	}
	return path.Join(k.folder, name), real, info, nil
}

// withoutUserinfo takes credentials out of a URL that somebody committed.
func withoutUserinfo(url string) string {
	return regexp.MustCompile(`//[^/]*@`).ReplaceAllString(url, "//")
}

// place is where a text stands in the kustomization.
func (k *kustomization) place(text string) place {
	at := place{file: k.file}
	if node := find(k.root, text); node != nil {
		at.line = node.Line
	}
	return at
}

func find(node *yaml.Node, text string) *yaml.Node {
	if node.Kind == yaml.ScalarNode && node.Value == text {
		return node
	}
	for _, child := range node.Content {
		if found := find(child, text); found != nil {
			return found
		}
	}
	return nil
}

// resource takes in a file of objects or another kustomization. It returns ""
// for a file without objects, which to kustomize would be an error.
func (r *renderer) resource(ctx context.Context, k *kustomization, name string) (string, error) {
	shown, real, info, err := r.refer(k, name)
	if err != nil || real == "" {
		return "", err
	}
	if info.IsDir() {
		return r.take(ctx, k, name, shown, real)
	}
	file, err := r.remembered(k.place(name), shown, real, roleObjects)
	if err != nil || file.broken {
		k.broken = true
		return "", err
	}
	if len(file.objects) == 0 {
		return "", nil
	}
	r.count(k, file.objects)
	return file.memory, nil
}

func (r *renderer) component(ctx context.Context, k *kustomization, name string) (string, error) {
	shown, real, info, err := r.refer(k, name)
	if err != nil || real == "" {
		return "", err
	}
	if !info.IsDir() {
		at := k.place(name)
		r.report(at.file, at.line, "%q is a file: a component is a folder with a kustomization", name)
		k.broken = true
		return "", nil
	}
	return r.take(ctx, k, name, shown, real)
}

// take takes in another kustomization.
func (r *renderer) take(ctx context.Context, k *kustomization, name, shown, real string) (string, error) {
	other, err := r.load(ctx, k.place(name), shown, real)
	if err != nil {
		return "", err
	}
	k.broken = k.broken || other.broken
	r.count(k, other.written)
	return "../" + other.memory, nil
}

// count notes what a kustomization takes in. Kustomizations that take in others
// twice could make many objects of few.
func (r *renderer) count(k *kustomization, objects []Object) {
	most := min(r.limits.Objects, r.limits.Kustomized)
	if k.written = append(k.written, objects...); len(k.written) > most {
		k.written = k.written[:most]
		if !k.full {
			r.report(k.file, 0, "takes in more than %d objects, for which kustomize takes too long: "+
				"give each tenant's folder a kustomization of its own, and the folders above none", most)
		}
		k.broken, k.full = true, true
	}
}

// other takes in a file that holds no objects. An empty name is left alone.
func (r *renderer) other(k *kustomization, name *string, as role) error {
	if *name == "" {
		return nil
	}
	shown, real, info, err := r.refer(k, *name)
	if err != nil || real == "" {
		return err
	}
	if info.IsDir() {
		at := k.place(*name)
		r.report(at.file, at.line, "%q is a folder", *name)
		k.broken = true
		return nil
	}
	file, err := r.remembered(k.place(*name), shown, real, as)
	if err != nil {
		return err
	}
	k.broken = k.broken || file.broken
	*name = file.memory
	return nil
}

// strategicMerge is a file's name or the patch itself.
func (r *renderer) strategicMerge(k *kustomization, patch *types.PatchStrategicMerge) error {
	text := string(*patch)
	if strings.ContainsAny(text, "\n{") || strings.Contains(text, ": ") {
		r.inline(k, &text)
		*patch = types.PatchStrategicMerge(text)
		return nil
	}
	err := r.other(k, &text, rolePatch)
	*patch = types.PatchStrategicMerge(text)
	return err
}

// inline puts a patch that is written into a kustomization through the strict
// decoder.
func (r *renderer) inline(k *kustomization, text *string) {
	if *text == "" {
		return
	}
	d := r.decoder(k.file)
	if node := find(k.root, *text); node != nil {
		d.base = node.Line
		if node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
			d.base--
		}
	}
	clean, _ := d.clean([]byte(*text), rolePatch)
	*text = string(clean)
	if len(d.findings) > 0 {
		r.findings = append(r.findings, d.findings...)
		k.broken = true
	}
}
