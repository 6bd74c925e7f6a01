package controlplane

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// progressInterval is how often a long step says that it is still going on.
const progressInterval = 10 * time.Second

// linked are the names by which the one binary of the components module is called.
var linked = []string{Etcd, APIServer, Scheduler, ControllerManager, "kubectl", "kwok-stages"}

// buildArgs are the arguments of the go tool but for the output folder. Without the version flags the API server calls
// itself v0.0.0, and clients that look at versions go wrong. No VCS stamp: it would relink at every commit.
var buildArgs = []string{
	"build", "-mod=readonly", "-buildvcs=false",
	"-ldflags", "-s -w" +
		" -X k8s.io/component-base/version.gitVersion=" + Version +
		" -X k8s.io/component-base/version.gitMajor=" + strings.Split(Version[1:], ".")[0] +
		" -X k8s.io/component-base/version.gitMinor=" + strings.Split(Version[1:], ".")[1],
}

// Binaries is a folder with the built components.
type Binaries struct {
	// Dir holds etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kubectl and kwok, ready to be used as
	// KUBEBUILDER_ASSETS or on a PATH.
	Dir string
	// assets is where KUBEBUILDER_ASSETS pointed when Build ran; may be empty.
	assets string
}

// Path is where the executable of that name is: etcd and kube-apiserver below KUBEBUILDER_ASSETS if they are there,
// everything else in Dir.
func (b Binaries) Path(name string) string {
	if b.assets != "" && (name == Etcd || name == APIServer) {
		path := filepath.Join(b.assets, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return filepath.Join(b.Dir, name)
}

func (b Binaries) stages() string { return filepath.Join(b.Dir, "stages.yaml") }

// Build compiles the components into the user's cache folder unless they are there already, which takes milliseconds.
// The cache's key covers the components module, the Go version and the build flags. Several processes may call it at
// once: one builds, the others wait, and nobody sees a folder that is not complete.
// It blocks until done or until ctx ends, and writes a line every few seconds to progress (nil: os.Stderr).
func Build(ctx context.Context, progress io.Writer) (Binaries, error) {
	progress = Options{Progress: progress}.progress()
	source, err := sourceDir(ctx)
	if err != nil {
		return Binaries{}, err
	}
	key, err := cacheKey(source)
	if err != nil {
		return Binaries{}, err
	}
	cache, err := cacheDir()
	if err != nil {
		return Binaries{}, err
	}
	built := Binaries{Dir: filepath.Join(cache, key), assets: os.Getenv("KUBEBUILDER_ASSETS")}
	if exists(built.Dir) {
		return built, nil
	}

	waiting := tell(progress, "waiting for another process that builds the control plane")
	unlock, err := lock(ctx, built.Dir+".lock")
	waiting()
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	if exists(built.Dir) {
		return built, nil
	}
	if err := compile(ctx, source, built.Dir, progress); err != nil {
		return Binaries{}, fmt.Errorf("building the control plane: %w", err)
	}
	return built, nil
}

// compile builds into a folder beside dir and renames it, so that dir is either absent or complete. The caller holds
// the lock, so whatever an earlier builder left beside it is of no use to anybody.
func compile(ctx context.Context, source, dir string, progress io.Writer) error {
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return err
	}
	told := tell(progress, "building kube-apiserver, etcd, kube-scheduler, kube-controller-manager, kubectl and kwok"+
		" from source, first time only, 8 minutes or more on two cores")
	err := run(ctx, source, "go", append(buildArgs, "-o", partial+string(filepath.Separator), ".", "sigs.k8s.io/kwok/cmd/kwok")...)
	took := told()
	if err != nil {
		return err
	}
	for _, name := range linked {
		if err := os.Symlink("components", filepath.Join(partial, name)); err != nil {
			return err
		}
	}
	stages, err := exec.CommandContext(ctx, filepath.Join(partial, "kwok-stages")).Output()
	if err != nil {
		return fmt.Errorf("printing kwok's stages: %w", err)
	}
	if err := os.WriteFile(Binaries{Dir: partial}.stages(), stages, 0o644); err != nil {
		return err
	}
	if err := os.Rename(partial, dir); err != nil {
		return err
	}
	fmt.Fprintf(progress, "built the control plane in %s: %s\n", took, dir)
	return nil
}

// run runs a command in a folder; the error carries the end of what it printed.
func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s in %s: %w\n%s", name, args[0], dir, err, lastLines(string(out), 20))
	}
	return nil
}

// tell repeats a message with the time passed until the returned function is called, which returns that time.
// What is over before the first interval is not told.
func tell(progress io.Writer, message string) func() time.Duration {
	start, done, gone := time.Now(), make(chan struct{}), make(chan struct{})
	passed := func() time.Duration { return time.Since(start).Round(time.Second) }
	go func() {
		defer close(gone)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				fmt.Fprintf(progress, "%s: %s\n", message, passed())
			case <-done:
				return
			}
		}
	}()
	return func() time.Duration {
		close(done)
		<-gone
		return passed()
	}
}
