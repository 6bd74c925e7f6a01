package fetch

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/object"
)

// Commit is one commit and its files.
type Commit struct {
	// Revision is the commit as Flux writes it: "main@sha1:<hex>".
	Revision string
	// Hash is the full hash, lower-case hex.
	Hash string
	// Branch is the short name of the branch it was the head of.
	Branch string
	// Author and Email are the author's, as valid UTF-8.
	Author, Email string
	// Time is when it was committed (not authored: a rebase keeps the author's
	// time, and a history should read in the order in which things landed).
	Time time.Time
	// Subject is the message's first line; Message is all of it. Valid UTF-8,
	// not bounded.
	Subject, Message string
	// Reverts is the full hash that the message says it reverts ("This reverts
	// commit <hex>", as git revert writes it), or "".
	Reverts string
	// Tree holds the commit's files and nothing else: reads cannot leave it, not
	// even through a symbolic link. It implements fs.ReadLinkFS, fs.ReadFileFS,
	// fs.ReadDirFS and fs.StatFS. A submodule is an empty folder, a Git LFS
	// pointer is the pointer. It ends with Close.
	Tree fs.FS

	folder string
	hold   *os.File
	root   *os.Root
	closed sync.Once
}

// Close removes the files. It may be called more than once, and on a Commit
// that Fetch did not make.
func (c *Commit) Close() error {
	if c == nil {
		return nil
	}
	var err error
	c.closed.Do(func() {
		if c.root != nil {
			c.root.Close()
		}
		if c.folder != "" {
			err = errors.Join(os.RemoveAll(c.folder), c.hold.Close())
		}
	})
	return err
}

// describe fills in all but the Tree.
func describe(c *object.Commit, head Head) *Commit {
	message := clean(c.Message)
	subject, _, _ := strings.Cut(strings.TrimLeft(message, "\r\n"), "\n")
	return &Commit{
		Revision: head.Revision(),
		Hash:     head.Hash,
		Branch:   head.Branch,
		Author:   clean(c.Author.Name),
		Email:    clean(c.Author.Email),
		Time:     c.Committer.When,
		Subject:  strings.TrimSpace(subject),
		Message:  message,
		Reverts:  reverts(message),
	}
}

// clean makes text fit for an API object: Git takes any bytes.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// The revert of a merge goes on with ", reversing changes made to".
var revertLine = regexp.MustCompile(`(?m)^This reverts commit ([0-9a-f]{40})\b`)

// reverts returns the hash that git revert names in a message.
func reverts(message string) string {
	if m := revertLine.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}
