package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reservation-operator/reservation-operator/test/cluster"
)

// story is the demo while it is told.
type story struct {
	cluster    *cluster.Cluster
	repository *cluster.Repository
	out        io.Writer

	steps, failed int
	release       string // the commit that takes gpu-04 off
}

// step is one thing that is done and must come true.
type step struct {
	title string
	// do changes something and waits until what the title says is so.
	do func(ctx context.Context) error
	// show holds kubectl commands, whose output is printed afterwards.
	show []string
}

func (s *story) tell(ctx context.Context) {
	for _, step := range []step{
		{"A commit reserves four nodes for tenant-foo and eight for tenant-bar", s.firstCommit,
			[]string{"get reservations", "get nodes -L reserved.tenant,hardware-pool"}},
		{"A plain pod of tenant-foo gets affinity and toleration and runs on a reserved node", s.tenantPod,
			[]string{"get pods -n tenant-foo -o wide"}},
		{"A foreign pod that tolerates everything runs elsewhere at once", s.foreignPod,
			[]string{"get pods -n visitors -o wide"}},
		{"A foreign pod that names a reserved node is refused by the API server", s.pinnedPod, nil},
		{"A commit removes gpu-04 while a pod runs there: it is cordoned and waits", s.removeNode,
			[]string{"get node gpu-04 -L reserved.tenant", "get reservations -o wide"}},
		{"The pod ends: gpu-04 is released", s.podEnds,
			[]string{"get node gpu-04 -L reserved.tenant", "get reservations"}},
		{"git revert: gpu-04 is locked again", s.revert,
			[]string{"get node gpu-04 -L reserved.tenant", "get reservationsources tenants -o jsonpath={.status.history[0]}"}},
		{"A bad commit (gpu-05 in two Reservations) changes nothing and says why", s.badCommit,
			[]string{"get reservations", "get reservationsources tenants -o jsonpath={.status.conditions[?(@.type==\"Ready\")].message}"}},
	} {
		if ctx.Err() != nil {
			return
		}
		s.play(ctx, step)
	}
}

func (s *story) play(ctx context.Context, step step) {
	s.steps++
	fmt.Fprintf(s.out, "\n━━ %d. %s\n", s.steps, step.title)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	err := step.do(ctx)
	took := time.Since(began).Round(time.Millisecond)
	for _, command := range step.show {
		s.show(ctx, command)
	}
	if err != nil {
		s.failed++
		fmt.Fprintf(s.out, "✗ did not come true: %s (%s)\n", err, took)
		return
	}
	fmt.Fprintf(s.out, "✓ %s\n", took)
}

// show prints a kubectl command and what it says.
func (s *story) show(ctx context.Context, command string) {
	out, err := s.cluster.Kubectl(ctx, strings.Fields(command)...)
	if err != nil {
		out = err.Error()
	}
	fmt.Fprintf(s.out, "$ kubectl %s\n%s\n", command, strings.TrimRight(out, "\n"))
}

// await waits until check returns nil. When the context ends first, the error is the last one that check returned.
func await(ctx context.Context, check func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if err := check(ctx); err != nil {
			if ctx.Err() == nil {
				last = err
			}
			return false, nil
		}
		return true, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}
