package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const productModule = "github.com/reservation-operator/reservation-operator"

// sourceDir finds the components module in the source tree that this package was compiled from.
func sourceDir(ctx context.Context) (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		if dir := filepath.Join(filepath.Dir(file), "components"); exists(filepath.Join(dir, "go.mod")) {
			return dir, nil
		}
	}
	// Compiled with -trimpath: ask the go tool, which works wherever the product's module is the current one.
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", productModule).Output()
	if err != nil {
		return "", fmt.Errorf("looking for the source of %s: %w", productModule, err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "test", "controlplane", "components")
	if !exists(filepath.Join(dir, "go.mod")) {
		return "", fmt.Errorf("no components module in %s", dir)
	}
	return dir, nil
}

// cacheKey names one build: the components module's text, the Go version and platform, and the build flags.
func cacheKey(source string) (string, error) {
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return "", err
	}
	files = append(files, filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum"))
	slices.Sort(files)

	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildArgs)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, filepath.Base(file), len(text))
		hash.Write(text)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// cacheDir is where builds and locks are kept, shared by all processes of a user.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("looking for the cache folder: %w", err)
	}
	dir := filepath.Join(base, "reservation-operator", "controlplane")
	return dir, os.MkdirAll(dir, 0o755)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lastLines cuts a text to its last n lines.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
