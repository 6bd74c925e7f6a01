package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// Operator is one replica of the operator: a process of its own, under its own service account, so that it can do what
// config/rbac allows and no more. It can be started and ended again and again, on the same ports. Its methods may be
// called by many goroutines.
type Operator struct {
	cluster *Cluster
	name    string

	mu      sync.Mutex
	process *process
	ports   []int // of the webhook, health and metrics
}

// process is a running operator.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// NewOperator returns one more replica, which does not run yet. Its name is that of its log.
func (c *Cluster) NewOperator(name string) *Operator { return &Operator{cluster: c, name: name} }

// build builds the operator into the user's cache folder, one binary for each checkout, and returns its path. It is
// replaced by a rename, so that whoever runs the one of before goes on with it.
var build = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("looking for the cache folder: %w", err)
	}
	root, err := filepath.Abs(Root())
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "reservation-operator", "operator", fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "reservation-operator")
	partial := fmt.Sprintf("%s.%d", binary, os.Getpid())
	defer os.Remove(partial)
	cmd := exec.Command("go", "build", "-o", partial, "./cmd/reservation-operator")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the operator: %w\n%s", err, out)
	}
	return binary, os.Rename(partial, binary)
})

// Start launches the operator and returns when it is ready.
func (o *Operator) Start(ctx context.Context, flags ...string) error {
	if err := o.Launch(ctx, flags...); err != nil {
		return err
	}
	if err := o.Await(ctx); err != nil {
		o.Kill()
		return err
	}
	return nil
}

// Launch builds the operator, once per process, and starts it. Extra flags win over the ones set here. It is an error
// if it runs already.
func (o *Operator) Launch(ctx context.Context, flags ...string) error {
	binary, err := build()
	if err != nil {
		return err
	}
	kubeconfig, err := o.cluster.Account(ctx)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.process != nil && !o.process.ended() {
		return errors.New("the operator runs already")
	}
	if o.ports == nil {
		if o.ports, err = freePorts(3); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(o.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(binary, append([]string{
		"--kubeconfig", kubeconfig,
		"--webhook-host", "127.0.0.1",
		"--webhook-port", strconv.Itoa(o.ports[0]),
		"--webhook-url", "https://localhost:" + strconv.Itoa(o.ports[0]),
		"--health-probe-bind-address", address(o.ports[1]),
		"--metrics-bind-address", address(o.ports[2]),
	}, flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := o.cluster.Launch(cmd); err != nil {
		return fmt.Errorf("starting the operator: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() { _ = cmd.Wait(); close(p.done) }()
	o.process = p
	return nil
}

// Await returns when the operator says that it is ready. It is an error if it ends before.
func (o *Operator) Await(ctx context.Context) error {
	o.mu.Lock()
	p, ports := o.process, o.ports
	o.mu.Unlock()
	if p == nil {
		return errNotRunning
	}
	if err := p.awaitReady(ctx, "http://"+address(ports[1])+"/readyz"); err != nil {
		return fmt.Errorf("%w; its log ends with:\n%s", err, o.LogTail())
	}
	return nil
}

var errNotRunning = errors.New("the operator does not run")

// Log is the path of the operator's log.
func (o *Operator) Log() string { return filepath.Join(o.cluster.Dir, o.name+".log") }

// LogTail returns the last 4,000 bytes of the log.
func (o *Operator) LogTail() string {
	data, err := os.ReadFile(o.Log())
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-4000):])
}

// PID is the process id of the running operator, or 0.
func (o *Operator) PID() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.process == nil || o.process.ended() {
		return 0
	}
	return o.process.cmd.Process.Pid
}

// Wait returns when the process that runs now has ended, with its exit status, -1 if a signal ended it or none runs.
func (o *Operator) Wait() int {
	o.mu.Lock()
	p := o.process
	o.mu.Unlock()
	if p == nil {
		return -1
	}
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends the operator a signal, if it runs.
func (o *Operator) Signal(signal os.Signal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.process != nil {
		_ = o.process.cmd.Process.Signal(signal) // one that has ended needs none
	}
}

// Kill ends the operator as a crash would, by SIGKILL. It does nothing if none runs.
func (o *Operator) Kill() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.process != nil {
		o.process.kill()
		o.process = nil
	}
}

// Stop asks the operator to end by SIGTERM and waits; an error says that it ended with another status than 0 or not
// before the context did.
func (o *Operator) Stop(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.process == nil {
		return nil
	}
	p := o.process
	o.process = nil
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("the operator did not end after SIGTERM: %w", ctx.Err())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the operator ended with status %d; its log ends with:\n%s", code, o.LogTail())
	}
	return nil
}

// Account returns a kubeconfig file with a token of the operator's service account.
func (c *Cluster) Account(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kubeconfig == "" {
		_, kubeconfig, err := c.AsServiceAccount(ctx, v1alpha1.OperatorNamespace, "reservation-operator")
		if err != nil {
			return "", err
		}
		c.kubeconfig = kubeconfig
	}
	return c.kubeconfig, nil
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) awaitReady(ctx context.Context, url string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("the operator ended with status %d", p.cmd.ProcessState.ExitCode())
		default:
		}
		response, err := http.Get(url)
		if err != nil {
			return false, nil
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
}

// freePorts returns ports of 127.0.0.1 that nothing listens on.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
