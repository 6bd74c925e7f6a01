package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document is one YAML document that holds something.
type document struct {
	// line is where it begins, from 1.
	line int
	root *yaml.Node
}

// decoder reads the documents of one file. It is the only reader of YAML in
// this package: what kustomize gets to see has gone through it.
type decoder struct {
	file string
	// base is added to all lines: the line before the text, for YAML inside of
	// another file.
	base     int
	limits   Limits
	findings []Finding
	// spent counts the values of all documents of a rendering; nil if nobody
	// counts.
	spent *int
	// resolved are unquoted scalars that were asked about.
	resolved map[string]any
}

func (d *decoder) report(line int, format string, args ...any) {
	d.reportField(line, nil, format, args...)
}

func (d *decoder) reportField(line int, f field, format string, args ...any) {
	if line > 0 {
		line += d.base
	}
	d.findings = append(d.findings, Finding{File: d.file, Line: line, Field: f.String(), Message: tidy(fmt.Sprintf(format, args...))})
}

const (
	lfsPrefix = "version https://git-lfs.github.com/spec/"
	bom       = "\uFEFF"
)

// documents returns those that are sound: every key once, every alias to an
// anchor of its own document, and not beyond the limits when expanded. What is
// not is reported. Documents that hold nothing, or comments only, are left out.
func (d *decoder) documents(data []byte) []document {
	if bytes.HasPrefix(data, []byte(lfsPrefix)) {
		d.report(0, "is a Git LFS pointer: the file itself is not in the repository, take its name out of .gitattributes and commit it as it is")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte(bom))
	if !utf8.Valid(data) {
		at := invalidAt(data)
		d.report(1+bytes.Count(data[:at], []byte("\n")), "byte 0x%02x is not UTF-8: save the file as UTF-8", data[at])
		return nil
	}
	if strings.HasSuffix(d.file, ".json") {
		// In JSON a tab can only stand between tokens, where YAML has none.
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	var documents []document
	var lines []string
	if bytes.Contains(data, []byte("!")) {
		lines = lineBreak.Split(string(data), -1)
	}
	for _, root := range d.parse(data) {
		if root.Kind == yaml.ScalarNode && root.Tag == "!!null" && root.Value == "" {
			continue
		}
		before := len(d.findings)
		if d.sound(root, lines) {
			documents = append(documents, document{line: root.Line, root: root})
		}
		for i := range d.findings[before:] {
			f := &d.findings[before+i]
			f.Kind, f.Name, f.Namespace = at(root, "kind"), at(root, "metadata", "name"), at(root, "metadata", "namespace")
		}
	}
	return documents
}

// at returns the text at a path in a document that may not be sound, or "".
func at(node *yaml.Node, path ...string) string {
	if len(path) == 0 {
		return tidy(node.Value)
	}
	for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
		if node.Content[i].Value == path[0] {
			return at(node.Content[i+1], path[1:]...)
		}
	}
	return ""
}

func invalidAt(data []byte) int {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// parse returns the root of each document of the stream, up to the first error.
func (d *decoder) parse(data []byte) (roots []*yaml.Node) {
	defer func() {
		// The parser panics on what it thinks cannot be.
		if p := recover(); p != nil {
			d.report(0, "cannot be read as YAML: %v", p)
		}
	}()
	stream := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := stream.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return roots
		}
		if err != nil {
			line, message := d.explain(err, data)
			d.report(line, "%s", message)
			return roots
		}
		if len(doc.Content) == 1 {
			roots = append(roots, doc.Content[0])
		}
	}
}

var (
	parserLine    = regexp.MustCompile(`^line (\d+): `)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// explain takes the line out of the parser's words, or finds it.
func (d *decoder) explain(err error, data []byte) (int, string) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if m := parserLine.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = strings.TrimPrefix(message, m[0])
	}
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		// The parser does not say where.
		alias := regexp.MustCompile(`(^|[\s,\[{:-])\*` + regexp.QuoteMeta(m[1]) + `($|[\s,\]}])`)
		for i, line := range bytes.Split(data, []byte("\n")) {
			if alias.Match(line) {
				return i + 1, unknownAnchorMessage(m[1])
			}
		}
		return 0, unknownAnchorMessage(m[1])
	}
	switch {
	case message == "control characters are not allowed":
		// The reader does not say where either.
		at := bytes.IndexFunc(data, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) })
		line = 1 + bytes.Count(data[:max(at, 0)], []byte("\n"))
	case strings.HasPrefix(message, "did not find expected"), line == 0:
		// The parser, unlike the scanner, counts from 0; and it leaves out a 0.
		line++
	}
	return line, "cannot be read as YAML: " + message
}

func unknownAnchorMessage(name string) string {
	return fmt.Sprintf("unknown anchor %q: an alias needs an anchor before it, in the same document", name)
}
