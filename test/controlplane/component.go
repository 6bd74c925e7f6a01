package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	// startTimeout bounds one component's start; generous, since tests of many packages start at once.
	startTimeout = 3 * time.Minute
	// stopTimeout is what a component gets between SIGTERM and SIGKILL. An API server with open watches would use up a
	// minute, whatever the watchers do.
	stopTimeout = 5 * time.Second
	// healthInterval is how often a starting component is asked whether it is healthy.
	healthInterval = 50 * time.Millisecond
)

// component is one process that can be started and stopped again and again with the same arguments.
// Its methods must not be called at the same time.
type component struct {
	name    string
	path    string
	args    []string
	env     []string // added to this process's own
	log     string   // a file; appended to
	healthy func(context.Context) error

	running *process // nil when stopped
}

// process is one run of a component.
type process struct {
	cmd      *exec.Cmd
	done     chan struct{} // closed when the process has ended and cmd.ProcessState says how
	expected chan struct{} // closed before it is asked to end
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// start starts the process and waits until it is healthy. On an error nothing runs.
// Should the process end unasked later on, crashed is called from another goroutine.
func (c *component) start(ctx context.Context, launch *launcher, crashed func(error)) error {
	if c.running != nil && !c.running.ended() {
		return fmt.Errorf("%s runs already", c.name)
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()

	cmd := exec.Command(c.path, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := launch.start(cmd); err != nil {
		return fmt.Errorf("starting %s: %w", c.name, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{}), expected: make(chan struct{})}
	c.running = p
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()

	if err := c.awaitHealthy(ctx, p); err != nil {
		_ = c.stop(syscall.SIGKILL)
		return fmt.Errorf("starting %s: %w; its log %s ends with\n%s", c.name, err, c.log, c.logTail())
	}
	go func() {
		select {
		case <-p.expected:
		case <-p.done:
			select {
			case <-p.expected:
			default:
				crashed(fmt.Errorf("%s ended unasked (%s); its log %s ends with\n%s", c.name, cmd.ProcessState, c.log, c.logTail()))
			}
		}
	}()
	return nil
}

func (c *component) awaitHealthy(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	last := errors.New("it was never asked whether it is healthy")
	for {
		select {
		case <-p.done:
			return fmt.Errorf("it ended: %s", p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("%w; the last answer about its health was: %w", ctx.Err(), last)
		case <-time.After(healthInterval):
		}
		if last = c.healthy(ctx); last == nil {
			return nil
		}
	}
}

// stop ends the process with a signal, and with SIGKILL when that takes too long. A component that does not run is
// already stopped.
func (c *component) stop(signal syscall.Signal) error {
	p := c.running
	if p == nil {
		return nil
	}
	c.running = nil
	close(p.expected)
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", c.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", c.name, err)
	}
	<-p.done
	return nil
}

func (c *component) logTail() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return lastLines(string(text), 20)
}
