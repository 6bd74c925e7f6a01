package render

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// ErrBusy says that kustomize is still busy with another rendering, one that
// was given up or that takes as long as this one could wait. It may pass.
var ErrBusy = errors.New("kustomize is busy with another commit")

// slot is held during a build: kustomize keeps its schema in global variables
// and is not safe for concurrent use. underWay is the build that holds it.
var (
	slot     = make(chan struct{}, 1)
	underWay atomic.Pointer[build]
)

// build is one run of kustomize.
type build struct {
	// givenUp says that nobody waits for it any more.
	givenUp atomic.Bool
}

// memory is the file system that kustomize gets: it holds what was put into it
// and nothing else.
type memory struct{ filesys.FileSystem }

func newMemory() memory { return memory{filesys.MakeFsInMemory()} }

func (m memory) write(name string, content []byte) error {
	return m.WriteFile("/"+name, content)
}

// kustomize renders a folder with a kustomization.
func (r *renderer) kustomize(ctx context.Context, shown, real string) error {
	k, err := r.load(ctx, place{file: shown}, shown, real)
	if err != nil || k.broken || len(k.written) == 0 {
		return err
	}
	texts, err := r.build(ctx, k)
	switch {
	case errors.Is(err, ErrBusy):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if err != nil {
		r.report(k.file, 0, "kustomize: %s", r.translate(err.Error()))
		return nil
	}
	var objects []Object
	for _, text := range texts {
		if object, ok := r.built(k, text); ok {
			objects = append(objects, object)
		}
	}
	r.missing(k, objects)
	return r.add(objects)
}

// missing warns of objects that were written but are not in the result: those
// marked as local configuration, which kustomize drops without a word, and
// those that a patch deletes.
func (r *renderer) missing(k *kustomization, objects []Object) {
	there := map[string]bool{}
	for _, o := range objects {
		if o.Line == 0 {
			return // cannot be told
		}
		there[o.at()] = true
	}
	for _, o := range k.written {
		if !there[o.at()] {
			f := Finding{Warning: true, File: o.File, Line: o.Line, Message: "is left out of the result by " + k.file}
			o.name(&f)
			r.findings = append(r.findings, f)
		}
	}
}

// build runs kustomize and returns the objects as JSON. A build cannot be
// stopped: when ctx is done, it is left to itself and keeps the slot until it
// ends. Nobody waits for one that was left, so that no worker is held up by it.
func (r *renderer) build(ctx context.Context, k *kustomization) ([][]byte, error) {
	if b := underWay.Load(); b != nil && b.givenUp.Load() {
		return nil, ErrBusy
	}
	select {
	case slot <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
	b := &build{}
	underWay.Store(b)
	type outcome struct {
		texts [][]byte
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() { underWay.Store(nil); <-slot }()
		texts, err := run(r.memory, "/"+k.memory, r.limits)
		done <- outcome{texts: texts, err: err}
	}()
	select {
	case o := <-done:
		return o.texts, o.err
	case <-ctx.Done():
		b.givenUp.Store(true)
		return nil, ctx.Err()
	}
}

func run(m memory, folder string, l Limits) (texts [][]byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot build this: %v", p)
		}
	}()
	options := krusty.MakeDefaultOptions()
	// The bases of an overlay lie above it. There is nothing else in memory.
	options.LoadRestrictions = types.LoadRestrictionsNone
	options.PluginConfig = types.DisabledPluginConfig()
	built, err := krusty.MakeKustomizer(options).Run(m, folder)
	if err != nil {
		return nil, err
	}
	var size int64
	for _, resource := range built.Resources() {
		// Some errors only come up here: Run may return half an object without one.
		text, err := resource.MarshalJSON()
		if err != nil {
			return nil, err
		}
		if size += int64(len(text)); size > l.Bytes {
			return nil, fmt.Errorf("makes more than %d MiB", l.Bytes>>20)
		}
		texts = append(texts, text)
	}
	if most := min(l.Objects, l.Kustomized); len(texts) > most {
		return nil, fmt.Errorf("makes more than %d objects", most)
	}
	return texts, nil
}

// built makes an object of what kustomize returns, and checks it again.
func (r *renderer) built(k *kustomization, text []byte) (Object, bool) {
	var content map[string]any
	if err := utiljson.Unmarshal(text, &content); err != nil {
		r.report(k.file, 0, "kustomize made something that is no object: %v", err)
		return Object{}, false
	}
	object := Object{Unstructured: &unstructured.Unstructured{Object: content}}
	if object.File, object.Line = unmark(content); object.File == "" {
		object.File = k.file
	}
	problems := object.incomplete()
	for i := range problems {
		object.name(&problems[i])
	}
	r.findings = append(r.findings, problems...)
	return object, len(problems) == 0
}
