package house

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	// target matches a target of the Makefile, and its explanation for make help.
	target = regexp.MustCompile(`(?m)^([a-z][a-z-]*):((?:[^=\n].*)?)$`)
	// made matches make commands in code of a Markdown page: in a block of commands, or between backticks.
	made = regexp.MustCompile("(?m)(?:^ {4,}|^\\$ |^|`)make ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)(?:[ `]|$)")
	// linked matches the target of a Markdown link.
	linked = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// Targets returns a sentence for each target of the Makefile that make help does not explain.
func Targets(tree fs.FS) (targets map[string]bool, problems []string, err error) {
	text, err := fs.ReadFile(tree, "Makefile")
	if err != nil {
		return nil, nil, err
	}
	targets = map[string]bool{}
	for _, match := range target.FindAllStringSubmatch(string(text), -1) {
		targets[match[1]] = true
		if !strings.Contains(match[2], "## ") {
			problems = append(problems, fmt.Sprintf("the target %s has no explanation for make help", match[1]))
		}
		if !strings.Contains(string(text), "\n.PHONY: "+match[1]+"\n") {
			problems = append(problems, fmt.Sprintf("the target %s is not .PHONY, though it names no file", match[1]))
		}
	}
	return targets, problems, nil
}

// Pages returns a sentence for each make command on a Markdown page that is no target of the Makefile, and for each link
// to a file that does not exist.
func Pages(tree fs.FS) ([]string, error) {
	targets, problems, err := Targets(tree)
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		problems = append(problems, page(tree, name, string(text), targets)...)
		return nil
	})
	return problems, err
}

func page(tree fs.FS, name, text string, targets map[string]bool) []string {
	var problems []string
	code := codeOf(text)
	for _, match := range made.FindAllStringSubmatch(code, -1) {
		for _, word := range strings.Fields(match[1]) {
			if !targets[word] {
				problems = append(problems, fmt.Sprintf("%s says make %s, which the Makefile does not know", name, word))
			}
		}
	}
	for _, match := range linked.FindAllStringSubmatch(text, -1) {
		to, _, _ := strings.Cut(match[1], "#")
		if to == "" || strings.Contains(to, "://") {
			continue
		}
		if _, err := fs.Stat(tree, path.Join(path.Dir(name), to)); err != nil {
			problems = append(problems, fmt.Sprintf("%s links to %s, which does not exist", name, match[1]))
		}
	}
	return problems
}

// codeOf returns what of a page is code: lines of blocks as they are, and inline code, a line each, in backticks.
func codeOf(text string) string {
	var code []string
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced:
			code = append(code, strings.TrimSpace(line))
		case strings.HasPrefix(line, "    "):
			code = append(code, line)
		default:
			for i, part := range strings.Split(line, "`") {
				if i%2 == 1 {
					code = append(code, "`"+part+"`")
				}
			}
		}
	}
	return strings.Join(code, "\n")
}

// mentioned matches a page that a comment of the code sends its reader to.
var mentioned = regexp.MustCompile(`docs/[a-z0-9/-]+\.md`)

// Mentions returns a sentence for each page that a Go file names and that does not exist.
func Mentions(tree fs.FS) ([]string, error) {
	var problems []string
	err := goFiles(tree, func(name string) error {
		if within(name, "test/house") {
			return nil // whose tests name pages that there are not
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, to := range mentioned.FindAllString(string(text), -1) {
			if _, err := fs.Stat(tree, to); err != nil {
				problems = append(problems, fmt.Sprintf("%s names %s, which does not exist", name, to))
			}
		}
		return nil
	})
	return problems, err
}
