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

// process is a running operator.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

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

// StartOperator builds the operator, once per process, and starts it with a token of its own service account, so that
// it can do what config/rbac allows and no more. It returns when the operator is ready. Its log is operator.log in
// the cluster's folder. Extra flags win over the ones set here.
func (c *Cluster) StartOperator(ctx context.Context, flags ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.operator != nil {
		return errors.New("the operator runs already")
	}
	binary, err := build()
	if err != nil {
		return err
	}
	_, kubeconfig, err := c.AsServiceAccount(ctx, v1alpha1.OperatorNamespace, "reservation-operator")
	if err != nil {
		return err
	}
	if c.ports == nil {
		if c.ports, err = freePorts(3); err != nil {
			return err
		}
	}
	ports := c.ports
	log, err := os.OpenFile(c.OperatorLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	health := "127.0.0.1:" + strconv.Itoa(ports[1])
	cmd := exec.Command(binary, append([]string{
		"--kubeconfig", kubeconfig,
		"--webhook-host", "127.0.0.1",
		"--webhook-port", strconv.Itoa(ports[0]),
		"--webhook-url", "https://localhost:" + strconv.Itoa(ports[0]),
		"--health-probe-bind-address", health,
		"--metrics-bind-address", "127.0.0.1:" + strconv.Itoa(ports[2]),
	}, flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := c.Launch(cmd); err != nil {
		return fmt.Errorf("starting the operator: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() { _ = cmd.Wait(); close(p.done) }()
	c.operator = p
	if err := p.awaitReady(ctx, "http://"+health+"/readyz"); err != nil {
		p.kill()
		c.operator = nil
		return fmt.Errorf("%w; its log ends with:\n%s", err, tail(c.OperatorLog(), 4000))
	}
	return nil
}

// OperatorLog is the path of the operator's log.
func (c *Cluster) OperatorLog() string { return filepath.Join(c.Dir, "operator.log") }

// OperatorPID is the process id of the running operator, or 0.
func (c *Cluster) OperatorPID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.operator == nil {
		return 0
	}
	return c.operator.cmd.Process.Pid
}

// KillOperator ends the operator as a crash would, by SIGKILL. It does nothing if none runs.
func (c *Cluster) KillOperator() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.operator != nil {
		c.operator.kill()
		c.operator = nil
	}
}

// StopOperator asks the operator to end by SIGTERM and waits; an error says that it ended with another status than 0
// or not before the context did.
func (c *Cluster) StopOperator(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.operator == nil {
		return nil
	}
	p := c.operator
	c.operator = nil
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
		return fmt.Errorf("the operator ended with status %d; its log ends with:\n%s", code, tail(c.OperatorLog(), 4000))
	}
	return nil
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

// tail returns the last bytes of a file, at most n.
func tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-n):])
}
