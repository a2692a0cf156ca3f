package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// programs are the commands of a release.
var programs = []string{"chronikd", "chronikctl", "chronik-bench"}

// A platform is an operating system and a processor, by Go's names.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// bin returns the directory with the programs of the platform.
func (p platform) bin() string { return filepath.Join(".cache", "release", p.String()) }

// parsePlatforms parses the flag -platforms.
func parsePlatforms(list string) ([]platform, error) {
	var all []platform
	for name := range strings.SplitSeq(list, ",") {
		system, arch, ok := strings.Cut(name, "/")
		if !ok || system == "" || arch == "" {
			return nil, fmt.Errorf("-platforms: %q is not of the form linux/amd64", name)
		}
		all = append(all, platform{system, arch})
	}
	return all, nil
}

// linux returns the platforms with packages and images.
func (r *release) linux() []platform {
	var all []platform
	for _, p := range r.platforms {
		if p.os == "linux" {
			all = append(all, p)
		}
	}
	return all
}

// environment returns the variables that decide the bytes of a program, whatever the caller's are.
// The compiler is the one that go.mod names: a newer Go fetches it.
func (r *release) environment(p platform) []string {
	return []string{
		"GOTOOLCHAIN=go" + r.goVersion,
		"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=",
	}
}

// compile builds the programs for a platform, static and without a trace of the directory. The
// commit is not in them: what Go stamps depends on the state of the checkout.
func (r *release) compile(p platform) error {
	if err := os.MkdirAll(p.bin(), 0o755); err != nil {
		return err
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", "nethttpomithttp2",
		"-ldflags", "-s -w -funcalign=16 -X main.version=" + r.stamp, "-o", p.bin() + "/"}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	_, err := outputWith(r.environment(p), "go", args...)
	return err
}

// host returns the platform of this machine.
func host() platform { return platform{runtime.GOOS, runtime.GOARCH} }
