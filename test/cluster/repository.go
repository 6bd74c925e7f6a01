package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Repository is a tenants' Git repository in a folder: a bare one that the operator follows and a work tree that
// pushes to it, as a person's clone would.
type Repository struct {
	// URL is the bare repository's path, for ReservationSource.spec.url.
	URL string
	// Work is the work tree, on branch main.
	Work string
}

// NewRepository makes a repository in a folder, whose first commit holds a copy of the given files' folder.
func NewRepository(dir, files string) (*Repository, error) {
	r := &Repository{URL: filepath.Join(dir, "tenants.git"), Work: filepath.Join(dir, "tenants")}
	if err := os.CopyFS(r.Work, os.DirFS(files)); err != nil {
		return nil, fmt.Errorf("copying %s: %w", files, err)
	}
	if err := run(dir, "init", "--quiet", "--bare", "--initial-branch=main", r.URL); err != nil {
		return nil, err
	}
	if err := run(r.Work, "init", "--quiet", "--initial-branch=main"); err != nil {
		return nil, err
	}
	if err := r.Git("remote", "add", "origin", r.URL); err != nil {
		return nil, err
	}
	for key, value := range map[string]string{
		"user.name": "Platform Team", "user.email": "platform@example.com", "commit.gpgsign": "false",
	} {
		if err := r.Git("config", key, value); err != nil {
			return nil, err
		}
	}
	_, err := r.Commit("Reserve the nodes of tenant-foo and tenant-bar")
	return r, err
}

// Commit commits everything in the work tree, pushes it and returns its hash.
func (r *Repository) Commit(message string) (string, error) {
	for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", message}, {"push", "--quiet", "origin", "main"}} {
		if err := r.Git(args...); err != nil {
			return "", err
		}
	}
	return r.Head()
}

// Revert reverts a commit by git revert, pushes the result and returns its hash.
func (r *Repository) Revert(commit string) (string, error) {
	for _, args := range [][]string{{"revert", "--no-edit", commit}, {"push", "--quiet", "origin", "main"}} {
		if err := r.Git(args...); err != nil {
			return "", err
		}
	}
	return r.Head()
}

// Head returns the hash of the work tree's commit.
func (r *Repository) Head() (string, error) {
	out, err := git(r.Work, "rev-parse", "HEAD")
	return strings.TrimSpace(out), err
}

// Edit replaces text in a file of the work tree. It is an error if the text is not there exactly once.
func (r *Repository) Edit(file, old, new string) error {
	path := filepath.Join(r.Work, filepath.FromSlash(file))
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(data), old); n != 1 {
		return fmt.Errorf("%s: %q stands there %d times, not once", file, old, n)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(data), old, new, 1)), 0o600)
}

// Write writes a file of the work tree, and the folders above it.
func (r *Repository) Write(file, content string) error {
	path := filepath.Join(r.Work, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o600)
}

// Remove removes a file or folder of the work tree.
func (r *Repository) Remove(file string) error {
	return os.RemoveAll(filepath.Join(r.Work, filepath.FromSlash(file)))
}

// Git runs git in the work tree.
func (r *Repository) Git(args ...string) error { return run(r.Work, args...) }

func run(dir string, args ...string) error {
	_, err := git(dir, args...)
	return err
}

// git runs git without the settings of whoever runs the test.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
