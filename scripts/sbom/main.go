// Command sbom writes a software bill of materials for each program, in the format CycloneDX 1.6:
//
//	go run ./scripts/sbom VERSION DIRECTORY PROGRAM...
//
// It lists the modules that are linked into the program, with the hashes of go.sum, and the
// standard library. It reads them from the program itself, so nothing is listed that a build tag or
// the linker left out. The same program always yields the same file.
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

type bom struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Ref     string `json:"bom-ref"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/sbom VERSION DIRECTORY PROGRAM...")
		os.Exit(2)
	}
	for _, program := range os.Args[3:] {
		if err := write(os.Args[1], os.Args[2], program); err != nil {
			fmt.Fprintln(os.Stderr, "sbom:", err)
			os.Exit(1)
		}
	}
}

// write writes the bill of one program to dir/NAME.cdx.json.
func write(version, dir, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	b, err := describe(info, version)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, filepath.Base(program)+".cdx.json")
	if err := os.WriteFile(name, append(text, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %d components\n", name, len(b.Components))
	return nil
}

// describe returns the bill of a program with this build information and version. The version that
// the linker was given is not part of the build information.
func describe(info *debug.BuildInfo, version string) (*bom, error) {
	main, err := module("application", &debug.Module{Path: info.Main.Path, Version: version})
	if err != nil {
		return nil, err
	}
	main.Name = info.Path
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	std := component{Type: "library", Name: "std", Version: goVersion, PURL: "pkg:golang/std@" + goVersion}
	std.Ref = std.PURL
	b := &bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{Component: main}, Components: []component{std}}
	linked := dependency{Ref: main.Ref, On: []string{std.Ref}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c, err := module("library", m)
		if err != nil {
			return nil, err
		}
		b.Components = append(b.Components, c)
		linked.On = append(linked.On, c.Ref)
	}
	b.Dependencies = []dependency{linked}
	return b, nil
}

// module returns a module as a component. The hash of go.sum ("h1:", base64) is the SHA-256 of a
// list of the module's files with their hashes.
func module(kind string, m *debug.Module) (component, error) {
	c := component{Type: kind, Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
	c.Ref = c.PURL
	if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
		raw, err := base64.StdEncoding.DecodeString(sum)
		if err != nil {
			return c, fmt.Errorf("the hash of %s: %w", m.Path, err)
		}
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(raw)}}
	}
	return c, nil
}
