// Command chronikd is the broker. Its command line is in internal/chronikd, and the broker that it
// starts in internal/daemon. If the broker cannot start, it prints one line of cause and remedy,
// and exits with a code of its kind. This package knows only the version that is linked in.
package main

import "github.com/chronik-io/chronik/internal/chronikd"

// version is set by the linker; empty for a program that `go install` builds.
var version string

func main() { chronikd.Command(version) }
