// Command chronikd is the broker. Its implementation is in internal/daemon.
package main

import "github.com/chronik-io/chronik/internal/chronikd"

// version is set by the linker; empty for a program that `go install` builds.
var version string

func main() { chronikd.Command(version) }
