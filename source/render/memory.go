package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// role is what a kustomization takes a file in as.
type role int

const (
	roleObjects role = iota
	rolePatch
	roleOther
)

// memoryFile is one file in memory, as kustomize gets to see it.
type memoryFile struct {
	// memory is its path from any kustomization in memory.
	memory  string
	objects []Object
	broken  bool
}

type memoryKey struct {
	real string
	role role
}

// remembered decodes a file strictly and puts it into memory as JSON, once.
// JSON leaves nothing to opinions: no anchors, no tags, no unquoted text, no
// key twice.
func (r *renderer) remembered(at place, shown, real string, as role) (*memoryFile, error) {
	key := memoryKey{real: real, role: as}
	if file := r.files[key]; file != nil {
		return file, nil
	}
	file := &memoryFile{broken: true}
	r.files[key], r.used[real] = file, true
	data, ok, err := r.read(at, shown, real)
	if !ok {
		return file, err
	}
	d := r.decoder(shown)
	clean, objects := d.clean(data, as)
	r.findings = append(r.findings, d.findings...)
	file.broken = len(d.findings) > 0
	file.objects = objects
	name := fmt.Sprintf("f%05d.yaml", len(r.files))
	file.memory = "../" + name
	r.shown[name] = shown
	return file, r.memory.write(name, clean)
}

// remember puts a kustomization into memory.
func (r *renderer) remember(k *kustomization) error {
	text, err := json.Marshal(k.spec)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	if k.spec.Resources == nil {
		// kustomize takes one without any field for a mistake.
		fields["resources"] = []string{}
	}
	if text, err = json.Marshal(fields); err != nil {
		return err
	}
	r.shown[k.memory+"/kustomization.yaml"] = k.file
	r.shown[k.memory] = k.folder
	return r.memory.write(k.memory+"/kustomization.yaml", text)
}

// clean returns a file's documents as JSON, and the objects that it holds.
func (d *decoder) clean(data []byte, as role) ([]byte, []Object) {
	var texts [][]byte
	if as == roleObjects {
		objects := d.objects(data)
		for _, o := range objects {
			o.mark()
			texts = append(texts, d.encode(o.Object))
		}
		return join(texts), objects
	}
	for _, doc := range d.documents(data) {
		c := converter{decoder: d}
		if as == rolePatch {
			c.text = textFields
		}
		texts = append(texts, d.encode(c.patch(doc.root)))
	}
	return join(texts), nil
}

func join(texts [][]byte) []byte {
	return bytes.Join(texts, []byte("---\n"))
}

func (d *decoder) encode(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		d.report(0, "cannot be written as JSON: %v", err)
	}
	return b.Bytes()
}

// writtenAt is the annotation that carries an object's place through kustomize,
// and comes off afterwards.
const writtenAt = "internal.scheduling.coreweave.cloud/written-at"

// mark notes the object's place on it. Its annotations are sound: objects
// checks them.
func (o Object) mark() {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[writtenAt] = o.at()
	o.SetAnnotations(annotations)
}

// unmark takes the note off and returns the place. An object that kustomize
// made, or that lost its annotations to a patch, has none.
func unmark(content map[string]any) (file string, line int) {
	annotations, _, _ := unstructured.NestedMap(content, "metadata", "annotations")
	text, _ := annotations[writtenAt].(string)
	if text == "" {
		return "", 0
	}
	delete(annotations, writtenAt)
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(content, "metadata", "annotations")
	} else {
		_ = unstructured.SetNestedMap(content, annotations, "metadata", "annotations")
	}
	colon := strings.LastIndex(text, ":")
	line, _ = strconv.Atoi(text[colon+1:])
	return text[:max(colon, 0)], line
}

// translate turns names in memory back into those of the commit, in what
// kustomize says.
func (r *renderer) translate(message string) string {
	for _, prefix := range []string{"../", "/", ""} {
		for _, suffix := range []string{"/kustomization.yaml", ""} {
			for name, shown := range r.shown {
				if strings.HasSuffix(name, suffix) {
					message = strings.ReplaceAll(message, prefix+name, shown)
				}
			}
		}
	}
	return tidy(message)
}
