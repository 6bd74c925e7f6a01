package fetch

import (
	"io/fs"
	"time"
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
	// Subject is the message's first line; Message is all of it. Valid UTF-8.
	Subject, Message string
	// Reverts is the full hash that the message says it reverts ("This reverts
	// commit <hex>", as git revert writes it), or "".
	Reverts string
	// Tree holds the commit's files and nothing else: reads cannot leave it, not
	// even through a symbolic link. It implements fs.ReadLinkFS, fs.ReadFileFS,
	// fs.ReadDirFS and fs.StatFS. A submodule is an empty folder, a Git LFS
	// pointer is the pointer. It ends with Close.
	Tree fs.FS
}

// Close removes the files. It may be called more than once.
func (c *Commit) Close() error {
	return nil
}
