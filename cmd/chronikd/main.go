// Command chronikd is the broker. Its implementation is in internal/daemon.
package main

import "github.com/chronik-io/chronik/internal/chronikd"

// version is set by `make build`.
var version = "dev"

func main() { chronikd.Command(version) }
