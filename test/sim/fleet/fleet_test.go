package fleet

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	nodesYAML = `apiVersion: v1
kind: Node
metadata: {name: b, labels: {alibabacloud.com/gpu-card-model: T4}}
status: {allocatable: {cpu: "8", memory: 1024Mi, alibabacloud.com/gpu-milli: "2000"}}
---
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: 500m, memory: 1Gi}}
`
	header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)

func folder(t *testing.T, nodes, pods string) string {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nodes.yaml"), []byte(nodes), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pods.csv"), []byte(pods), 0o600))
	return dir
}

func TestRead(t *testing.T) {
	got, err := Read(folder(t, nodesYAML, header+"two,100,10,2,500,T4|P100,LS,Running,60,200,70\none,1,1,0,0,,LS,Running,5,9,5\nnever,1,1,0,0,,LS,Failed,5,9,\n"))
	require.NoError(t, err)
	require.Equal(t, Fleet{
		Nodes: []Node{{Name: "a", Room: Room{CPU: 500, Memory: 1024}}, {Name: "b", Model: "T4", Room: Room{CPU: 8000, Memory: 1024, GPU: 2000}}},
		Pods: []Pod{
			{Name: "one", Arrive: 5 * time.Second, Life: 4 * time.Second, Needs: Room{CPU: 1, Memory: 1}},
			{Name: "two", Arrive: time.Minute, Life: 130 * time.Second, Models: []string{"T4", "P100"}, Needs: Room{CPU: 100, Memory: 10, GPU: 1000}},
		},
	}, got)
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct{ nodes, pods, want string }{
		"no nodes":        {"", header, "nodes.yaml: there is nothing in it"},
		"no YAML":         {"a: b: c", header, "nodes.yaml: after 0 nodes: "},
		"no pods":         {nodesYAML, header, "pods.csv: there is nothing in it"},
		"no such column":  {nodesYAML, "name\n", "pods.csv: there is no column cpu_milli"},
		"no number":       {nodesYAML, header + "one,many,1,0,0,,LS,Running,5,9,5\n", `pods.csv: line 2: cpu_milli is no whole number: "many"`},
		"less than none":  {nodesYAML, header + "one,1,-1,0,0,,LS,Running,5,9,5\n", `pods.csv: line 2: memory_mib is no whole number: "-1"`},
		"ends too early":  {nodesYAML, header + "one,1,1,0,0,,LS,Running,5,9,10\n", "pods.csv: line 2: it ends before it begins"},
		"a field is left": {nodesYAML, header + "one,1\n", "pods.csv: record on line 2: wrong number of fields"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(folder(t, tc.nodes, tc.pods))
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err := Read(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "none/nodes.yaml: no such file")
}

func TestCompress(t *testing.T) {
	at := func(times ...time.Duration) Fleet {
		var f Fleet
		for _, arrive := range times {
			f.Pods = append(f.Pods, Pod{Arrive: arrive, Life: time.Hour})
		}
		return f
	}
	whole := at(0, time.Hour, 101*time.Hour, 101*time.Hour+30*time.Minute, 102*time.Hour)
	require.Equal(t, at(0, 2*time.Hour, 4*time.Hour, 5*time.Hour, 6*time.Hour), whole.Compress(6*time.Hour))
	require.Equal(t, time.Hour, whole.Pods[1].Arrive, "the fleet itself stays")
	require.Empty(t, Fleet{}.Compress(time.Hour).Pods)
}

// A made fleet's pods live as long as the published figures say, about.
func TestMake(t *testing.T) {
	require.Equal(t, Make(7), Make(7))
	require.NotEqual(t, Make(7), Make(8))
	for _, want := range lifetimes {
		require.InDelta(t, want.seconds, lifetime(want.part).Seconds(), 1)
		shorter := 0
		pods := Make(7).Pods
		for _, p := range pods {
			if p.Life.Seconds() < want.seconds-1 {
				shorter++
			}
		}
		if want.part > 0.1 { // nothing is shorter than the first figure
			require.InDelta(t, want.part, float64(shorter)/float64(len(pods)), min(0.02, (1-want.part)/2))
		}
	}
}
