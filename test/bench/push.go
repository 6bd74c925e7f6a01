package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/cluster"
)

// push measures the time from a push to the last of 100 nodes' locks, from a local repository that is looked at every
// half second. The baseline is the floor: a clone by git and a loop of patches, begun at the moment of the push.
func push(ctx context.Context) error {
	const nodes, rounds, goal = 100, 11, 1500 * time.Millisecond
	c, err := cluster.Start(ctx, cluster.Options{Bare: true})
	if err != nil {
		return err
	}
	defer c.Stop()
	all := names("push", nodes)
	if err := register(ctx, c, all); err != nil {
		return err
	}
	if err := c.Operator.Start(ctx); err != nil {
		return err
	}
	watched, err := watchNodes(ctx, c)
	if err != nil {
		return err
	}
	repository, err := emptyRepository(c.Dir)
	if err != nil {
		return err
	}
	if err := c.Client.Create(ctx, &v1alpha1.ReservationSource{
		ObjectMeta: metav1.ObjectMeta{Name: "push"},
		Spec: v1alpha1.ReservationSourceSpec{
			URL: repository.URL, Interval: metav1.Duration{Duration: 500 * time.Millisecond},
		},
	}); err != nil {
		return err
	}
	var ours, floor []time.Duration
	for i := range rounds {
		took, err := pushOnce(ctx, repository, watched, all)
		if err != nil {
			return err
		}
		ours = append(ours, took)
		began := time.Now()
		if err := clone(repository, filepath.Join(c.Dir, fmt.Sprintf("clone-%d", i))); err != nil {
			return err
		}
		if err := each(ctx, all, rawPatch(c.Client)); err != nil {
			return err
		}
		floor = append(floor, time.Since(began))
		if err := each(ctx, all, rawClear(c.Client)); err != nil {
			return err
		}
	}
	o, b := median(ours), median(floor)
	figure("push_to_locked_100_nodes_p50", o.Round(time.Millisecond).String(), b.Round(time.Millisecond).String(), ratio(o, b), goal.String(), o <= goal)
	return nil
}

// pushOnce pushes a Reservation of all nodes, waits for the last lock, and pushes its removal.
func pushOnce(ctx context.Context, r *cluster.Repository, watched *counter, nodes []string) (time.Duration, error) {
	text := "apiVersion: scheduling.coreweave.cloud/v1alpha1\nkind: Reservation\nmetadata: {name: push}\nspec:\n  tenant: push\n  reservedNodes:"
	if err := r.Write("reservation.yaml", text+list(nodes)); err != nil {
		return 0, err
	}
	if _, err := r.Commit("Reserve"); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := watched.await(ctx, "push", len(nodes)); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if err := r.Write("reservation.yaml", text+" []\n"); err != nil {
		return 0, err
	}
	if _, err := r.Commit("Give back"); err != nil {
		return 0, err
	}
	return took, watched.await(ctx, "push", 0)
}

func list(nodes []string) string {
	text := "\n"
	for _, n := range nodes {
		text += "  - " + n + "\n"
	}
	return text
}

func emptyRepository(dir string) (*cluster.Repository, error) {
	files := filepath.Join(dir, "files")
	if err := os.MkdirAll(files, 0o750); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(files, "README.md"), []byte("A tenants' repository.\n"), 0o600); err != nil {
		return nil, err
	}
	return cluster.NewRepository(dir, files)
}

func clone(r *cluster.Repository, to string) error {
	return r.Git("clone", "--quiet", "--depth=1", "file://"+r.URL, to)
}
