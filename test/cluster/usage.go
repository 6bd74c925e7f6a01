package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Usage is what the running operator has used since its start.
type Usage struct {
	// CPU is its processor time, and Resident its resident memory in bytes.
	CPU      time.Duration
	Resident int64
	// Requests is how many requests it has made to the API server, watches included, and NodeReconciles how often it has
	// looked at a node.
	Requests, NodeReconciles int64
}

// clockTick is the unit of processor time in /proc (proc(5): USER_HZ is 100 on every architecture that Go runs on).
const clockTick = 10 * time.Millisecond

// Usage reads what the running operator has used: of its process from /proc, of its requests from its metrics.
func (o *Operator) Usage(ctx context.Context) (Usage, error) {
	pid := o.PID()
	if pid == 0 {
		return Usage{}, errNotRunning
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	// The fields after the command, which stands in brackets and may hold anything: state is the first.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 22 {
		return Usage{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	pages, err3 := strconv.ParseInt(fields[21], 10, 64)
	sums, err4 := o.sum(ctx, "rest_client_requests_total{", `controller_runtime_reconcile_total{controller="node"`)
	return Usage{
		CPU: time.Duration(user+system) * clockTick, Resident: pages * int64(os.Getpagesize()),
		Requests: sums[0], NodeReconciles: sums[1],
	}, errors.Join(err1, err2, err3, err4)
}

// sum sums metrics, each over all lines that begin so.
func (o *Operator) sum(ctx context.Context, metrics ...string) ([]int64, error) {
	sums := make([]int64, len(metrics))
	o.mu.Lock()
	url := "http://" + address(o.ports[2]) + "/metrics"
	o.mu.Unlock()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return sums, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return sums, fmt.Errorf("reading the operator's metrics: %w", err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		i := slices.IndexFunc(metrics, func(metric string) bool { return strings.HasPrefix(line, metric) })
		if i < 0 {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return sums, err
		}
		sums[i] += int64(n)
	}
	return sums, lines.Err()
}
