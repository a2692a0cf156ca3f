// Package lint holds the rules of the tree as tests: who may import whom, what
// every package must say about itself, how long files and functions may get.
//
// It has no code of its own and nobody imports it. A rule that a test can hold
// is here with its reason in the failure message; docs/architecture.md explains
// the rooms that rooms_test.go lists.
package lint
