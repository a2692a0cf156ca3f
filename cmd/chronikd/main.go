// Command chronikd is the broker. Its command line is in internal/chronikd, and the broker that it
// starts in internal/daemon. This package knows only the version that is linked in.
package main

import "github.com/chronik-io/chronik/internal/chronikd"

// version is set by the linker; empty for a program that `go install` builds.
var version string

func main() { chronikd.Command(version) }
