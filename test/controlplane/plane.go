package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// ControlPlane is one running control plane. Its methods may be called from several goroutines.
type ControlPlane struct {
	// Config is for an administrator (group system:masters) without a client-side rate limit. Copy before changing it.
	Config *rest.Config
	// Kubeconfig is a file with the same credentials.
	Kubeconfig string
	// Dir holds data, certificates, kubeconfig files and a log per component.
	Dir string
	// Binaries are the executables that run here.
	Binaries Binaries

	disclaim  func() // gives up the claim on Dir if that is temporary, else nil
	progress  io.Writer
	authority *authority
	ports     portBlock
	launcher  *launcher

	mutex      sync.Mutex // guards what follows and every start and stop
	names      []string   // what Options asked for, in the order of starting
	components map[string]*component
	stopped    bool
}

// Start builds what is missing (see Build) and starts a control plane. It returns once every component says that it is
// healthy and, with a controller manager, pods can be created in the namespace default. ctx bounds the start, not the
// life: call Stop. On an error nothing is left running, and the error carries the end of the log that matters.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	binaries, err := Build(ctx, o.progress())
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{Binaries: binaries, Dir: o.Dir, progress: o.progress(), names: o.components()}
	begin := time.Now()
	if err := c.start(ctx, o); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	fmt.Fprintf(c.progress, "control plane (%s) at %s after %s\n",
		strings.Join(c.names, ", "), c.Config.Host, time.Since(begin).Round(100*time.Millisecond))
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context, o Options) (err error) {
	c.launcher = newLauncher()
	if err := c.prepareDir(); err != nil {
		return err
	}
	if c.ports, err = takePorts(); err != nil {
		return err
	}
	if c.authority, err = newAuthority(); err != nil {
		return fmt.Errorf("making the certificate authority: %w", err)
	}
	if err := c.authority.writeTo(filepath.Join(c.Dir, "pki")); err != nil {
		return fmt.Errorf("writing certificates: %w", err)
	}
	if err := c.writeIdentities(); err != nil {
		return fmt.Errorf("writing kubeconfig files: %w", err)
	}
	if err := c.writeConfigurations(); err != nil {
		return fmt.Errorf("writing configurations: %w", err)
	}
	c.components = c.commands(o)

	for _, name := range []string{Etcd, APIServer} {
		if err := c.startComponent(ctx, name); err != nil {
			return err
		}
	}
	if err := c.startTogether(ctx, c.names[2:]); err != nil {
		return err
	}
	if o.ControllerManager {
		return c.awaitDefaultServiceAccount(ctx)
	}
	return nil
}

func (c *ControlPlane) prepareDir() (err error) {
	if c.Dir == "" {
		c.Dir, c.disclaim, err = temporaryDir()
		return err
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return err
	}
	return os.MkdirAll(c.Dir, 0o755)
}

// startTogether starts components that only need the API server.
func (c *ControlPlane) startTogether(ctx context.Context, names []string) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { errs[i] = c.components[name].start(ctx, c.launcher, c.report) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// report says that a component ended unasked.
func (c *ControlPlane) report(err error) { fmt.Fprintf(c.progress, "control plane: %v\n", err) }

// StartComponent starts a component that was stopped or crashed, or one that Options did not ask for, with the same
// ports and data as before, and waits until it is healthy, for minutes at the most. Starting one that runs is an error.
func (c *ControlPlane) StartComponent(name string) error {
	return c.startComponent(context.Background(), name)
}

func (c *ControlPlane) startComponent(ctx context.Context, name string) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	component, err := c.component(name)
	if err != nil {
		return err
	}
	return component.start(ctx, c.launcher, c.report)
}

// StopComponent ends a component by SIGTERM, by SIGKILL if that takes too long, and waits until it is gone.
// Stopping one that does not run is no error.
func (c *ControlPlane) StopComponent(name string) error { return c.end(name, syscall.SIGTERM) }

// KillComponent ends a component by SIGKILL, as a crash would, and waits until it is gone.
func (c *ControlPlane) KillComponent(name string) error { return c.end(name, syscall.SIGKILL) }

func (c *ControlPlane) end(name string, signal syscall.Signal) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	component, err := c.component(name)
	if err != nil {
		return err
	}
	return component.stop(signal)
}

func (c *ControlPlane) component(name string) (*component, error) {
	if c.stopped {
		return nil, errStopped
	}
	component, known := c.components[name]
	if !known {
		return nil, fmt.Errorf("no component is called %q", name)
	}
	return component, nil
}

// Stop ends every process, each by its own process id, and removes Dir if it was temporary. In a folder that stays,
// components get SIGTERM first, so that the data are whole. A second Stop does nothing.
func (c *ControlPlane) Stop() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	signal := syscall.SIGTERM
	if c.disclaim != nil {
		signal = syscall.SIGKILL
	}
	var errs []error
	for _, name := range slices.Backward([]string{Etcd, APIServer, Scheduler, ControllerManager, Kwok}) {
		if component := c.components[name]; component != nil {
			errs = append(errs, component.stop(signal))
		}
	}
	c.launcher.close()
	if c.ports.release != nil {
		c.ports.release()
	}
	if c.disclaim != nil {
		errs = append(errs, os.RemoveAll(c.Dir))
		c.disclaim()
	}
	return errors.Join(errs...)
}
