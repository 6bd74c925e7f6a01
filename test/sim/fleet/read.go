package fleet

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// What nodes.yaml calls the GPUs: their kind, and their number in thousandths.
const (
	labelModel  = "alibabacloud.com/gpu-card-model"
	resourceGPU = corev1.ResourceName("alibabacloud.com/gpu-milli")
)

// columns are those of pods.csv that are read; times are in seconds. A pod without a scheduled_time never ran.
var columns = []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "creation_time", "deletion_time", "scheduled_time"}

// Read reads a recording in the form of the openb trace (Alibaba's cluster-trace-gpu-v2023): nodes.yaml, a document per
// Node, and pods.csv. Pods that never ran are left out. An error names the file, and the line if it is one of the pods.
func Read(dir string) (Fleet, error) {
	var f Fleet
	var err error
	if f.Nodes, err = inFile(filepath.Join(dir, "nodes.yaml"), readNodes); err != nil {
		return f, err
	}
	if f.Pods, err = inFile(filepath.Join(dir, "pods.csv"), readPods); err != nil {
		return f, err
	}
	return f.sorted(), nil
}

func inFile[T any](path string, read func(io.Reader) ([]T, error)) ([]T, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out, err := read(file)
	if err == nil && len(out) == 0 {
		err = errors.New("there is nothing in it")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

func readNodes(from io.Reader) ([]Node, error) {
	var out []Node
	decoder := yaml.NewYAMLOrJSONDecoder(from, 4096)
	for {
		var n corev1.Node
		err := decoder.Decode(&n)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("after %d nodes: %w", len(out), err)
		case n.Name == "":
			continue // an empty document
		}
		has := n.Status.Allocatable
		gpus := has[resourceGPU]
		out = append(out, Node{
			Name: n.Name, Model: n.Labels[labelModel],
			Room: Room{CPU: has.Cpu().MilliValue(), Memory: has.Memory().Value() >> 20, GPU: gpus.Value()},
		})
	}
}

func readPods(from io.Reader) ([]Pod, error) {
	in := csv.NewReader(from)
	head, err := in.Read()
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, name := range head {
		at[name] = i
	}
	for _, name := range columns {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("there is no column %s", name)
		}
	}
	var out []Pod
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if row[at["scheduled_time"]] == "" {
			continue
		}
		p, err := readPod(func(column string) string { return row[at[column]] })
		if err != nil {
			line, _ := in.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		out = append(out, p)
	}
}

func readPod(get func(column string) string) (Pod, error) {
	p := Pod{Name: get("name")}
	var bad []error
	number := func(column string) int64 {
		n, err := strconv.ParseInt(get(column), 10, 64)
		if err != nil || n < 0 {
			bad = append(bad, fmt.Errorf("%s is no whole number: %q", column, get(column)))
		}
		return n
	}
	seconds := func(column string) time.Duration { return time.Duration(number(column)) * time.Second }
	p.Needs = Room{CPU: number("cpu_milli"), Memory: number("memory_mib"), GPU: number("num_gpu") * number("gpu_milli")}
	p.Arrive, p.Life = seconds("creation_time"), seconds("deletion_time")-seconds("scheduled_time")
	if models := get("gpu_spec"); models != "" {
		p.Models = strings.Split(models, "|")
	}
	if p.Life < 0 {
		bad = append(bad, errors.New("it ends before it begins"))
	}
	return p, errors.Join(bad...)
}
