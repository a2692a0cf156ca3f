// Command sbom writes a software bill of materials for each program, in the format CycloneDX 1.6:
//
//	go run ./scripts/sbom [-archive NAME] VERSION DIRECTORY PROGRAM...
//
// With -archive it writes one bill, NAME.cdx.json, of an archive that contains the programs.
//
// It lists the modules that are linked into the program, with the hashes of go.sum, and the
// standard library. It reads them from the program itself, so nothing is listed that a build tag or
// the linker left out. The same program always yields the same file. The command does not
// know chronik's packages, and reads no list of known vulnerabilities.
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
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
	archive := flag.String("archive", "", "write one bill of all programs, with this name")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/sbom [-archive NAME] VERSION DIRECTORY PROGRAM...")
	}
	flag.Parse()
	if flag.NArg() < 3 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*archive, flag.Arg(0), flag.Arg(1), flag.Args()[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// run writes a bill for each program, or one for the archive that contains them.
func run(archive, version, dir string, programs []string) error {
	var bills []*bom
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return err
		}
		b, err := describe(info, version)
		if err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
		if archive != "" {
			bills = append(bills, b)
		} else if err := write(b, filepath.Join(dir, filepath.Base(program)+".cdx.json")); err != nil {
			return err
		}
	}
	if archive == "" {
		return nil
	}
	return write(join(archive, version, bills), filepath.Join(dir, archive+".cdx.json"))
}

// join returns the bill of an archive that contains the programs of the bills.
func join(archive, version string, bills []*bom) *bom {
	top := component{Ref: archive, Type: "application", Name: archive, Version: version, PURL: "pkg:generic/chronik@" + version}
	all := &bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{Component: top}}
	contains := dependency{Ref: archive}
	known := make(map[string]bool)
	for _, b := range bills {
		program := b.Metadata.Component
		contains.On = append(contains.On, program.Ref)
		for _, c := range append([]component{program}, b.Components...) {
			if !known[c.Ref] {
				known[c.Ref] = true
				all.Components = append(all.Components, c)
			}
		}
		all.Dependencies = append(all.Dependencies, b.Dependencies...)
	}
	all.Dependencies = append([]dependency{contains}, all.Dependencies...)
	return all
}

// write writes a bill to a file.
func write(b *bom, path string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %d components\n", path, len(b.Components))
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
	main.PURL += "#" + strings.TrimPrefix(info.Path, info.Main.Path+"/") // programs of one module differ by their path in it
	main.Ref = main.PURL
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
