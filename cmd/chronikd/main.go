// Command chronikd is the broker. Its implementation is in internal/daemon.
package main

import (
	"github.com/chronik-io/chronik/internal/chronikd"
	"github.com/chronik-io/chronik/internal/cli"
)

// version is set by the linker: the Makefile and scripts/release name it.
var version string

func main() { chronikd.Command(cli.Version(version)) }
