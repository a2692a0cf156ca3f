// Package lint holds the rules of the source tree as tests: which package may import which, what
// every package comment must state, how long files, functions and lines may get, and which words
// comments, messages and names do not use. Headings and lists in comments must print as such.
//
// Other tests compare the pages and deploy with the tree: links, paths, commands, metrics, alerts,
// quoted messages, terms and figures. TestPathsAreAsDescribed derives the steps of the write path
// and of the read path from the calls between packages.
//
// It has no code of its own and no package imports it. A rule states its reason in the message of
// the failing test. docs/architecture.md describes the packages that imports_test.go lists.
package lint
