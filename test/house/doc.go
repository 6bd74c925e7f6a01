// Package house holds the rules that keep this repository in order: which room may import which, which files stay pure,
// what must be documented, and that whatever is generated or listed twice is the same in both places.
//
// In comes the source tree; out come sentences about what breaks a rule, empty when nothing does. Each rule is a
// function over a file system or plain values, so that its own test can show that it fails when it should. Nothing is
// written but temporary folders.
//
//	for _, problem := range house.Arrows(packages) {
//		t.Error(problem)
//	}
package house
