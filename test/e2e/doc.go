// Package e2e holds the end-to-end tests: the operator as a process under its own service account, against a real
// control plane and real Git repositories. One file per feature; page_test.go walks the page from top to bottom.
package e2e
