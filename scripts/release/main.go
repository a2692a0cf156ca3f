// Command release writes everything that a release of chronik publishes: archives of static
// binaries, Debian and RPM packages, a container image, the Helm chart, bills of materials, the
// release notes and the checksums. Run it in the root of the repository, through `make release`:
//
//	release [-version X.Y.Z] [-into DIR] [-platforms LIST] [-only LIST]
//
// It needs Go and git, and neither root nor a container engine. The same commit, version and Go
// yield the same bytes in any directory and at any time: every time stamp is that of the commit, or
// SOURCE_DATE_EPOCH (seconds since 1970), and no file mode depends on the umask. The command knows
// no keys and no server: scripts/release.sh signs, and people publish.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// artifacts are the values of -only.
var artifacts = []string{"archives", "packages", "image", "chart", "sbom", "notes"}

// stage is where the files of packages are collected, as deploy/packages/nfpm.yaml says.
const stage = ".cache/package"

// A release is one run of the command.
type release struct {
	version   string    // without the v, such as 0.1.0 or 0.1.0-rc.1
	stamp     string    // what the programs print as their version
	commit    string    // its hash
	goVersion string    // of the compiler
	time      time.Time // of every file
	into      string
	platforms []platform
	written   []string // names below into
}

func main() {
	var (
		version   = flag.String("version", "", "the version; the default is derived from CHANGELOG.md and the commit")
		into      = flag.String("into", "", "the directory of the results; by default dist/VERSION")
		platforms = flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64",
			"the operating systems and processors, separated by commas")
		only = flag.String("only", "",
			"the artifacts to write, separated by commas: "+strings.Join(artifacts, ", ")+"; by default all, and their checksums")
	)
	flag.Parse()
	if err := run(*version, *into, *platforms, *only, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run builds what the flags ask for.
func run(version, into, platforms, only string, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q; release -help lists the flags", rest[0])
	}
	wanted, err := choose(only)
	if err != nil {
		return err
	}
	r := &release{into: into}
	if r.platforms, err = parsePlatforms(platforms); err != nil {
		return err
	}
	if err := r.identify(version); err != nil {
		return err
	}
	if r.into == "" {
		r.into = filepath.Join("dist", r.version)
	}
	if err := r.clear(wanted); err != nil {
		return err
	}
	fmt.Printf("chronik %s of commit %.12s in %s\n", r.version, r.commit, r.into)
	if err := r.collect(); err != nil {
		return err
	}
	for _, a := range artifacts {
		if !wanted[a] {
			continue
		}
		if err := r.build(a); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	if only == "" {
		if err := r.checksums(); err != nil {
			return fmt.Errorf("checksums: %w", err)
		}
	}
	return os.RemoveAll(stage)
}

// choose parses the flag -only.
func choose(only string) (map[string]bool, error) {
	wanted := make(map[string]bool)
	if only == "" {
		for _, a := range artifacts {
			wanted[a] = true
		}
		return wanted, nil
	}
	for a := range strings.SplitSeq(only, ",") {
		if !slices.Contains(artifacts, a) {
			return nil, fmt.Errorf("-only: there is no artifact %q; choose from %s", a, strings.Join(artifacts, ", "))
		}
		wanted[a] = true
	}
	return wanted, nil
}

// clear empties the staging directory and removes results of former runs from r.into: everything if
// all artifacts are built, otherwise the packages if they are.
func (r *release) clear(wanted map[string]bool) error {
	if err := os.RemoveAll(stage); err != nil {
		return err
	}
	if len(wanted) == len(artifacts) {
		if err := emptyOrOurs(r.into); err != nil {
			return err
		}
		if err := os.RemoveAll(r.into); err != nil {
			return err
		}
	}
	if wanted["packages"] {
		for _, pattern := range []string{"chronik_*.deb", "chronik-*.rpm"} {
			old, err := filepath.Glob(filepath.Join(r.into, pattern))
			if err != nil {
				return err
			}
			for _, path := range old {
				if err := os.Remove(path); err != nil {
					return err
				}
			}
		}
	}
	return os.MkdirAll(r.into, 0o755)
}

// emptyOrOurs refuses a directory with files that no release has, since its content is removed.
func emptyOrOurs(dir string) error {
	in, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range in {
		name := f.Name()
		if f.IsDir() || !strings.HasPrefix(name, "chronik") && !strings.HasPrefix(name, "SHA256SUMS") && name != notesName {
			return fmt.Errorf("-into %s: it contains %s, which no release writes; name an empty or a new directory", dir, name)
		}
	}
	return nil
}

// build writes one kind of artifact.
func (r *release) build(artifact string) error {
	switch artifact {
	case "archives":
		return r.archives()
	case "packages":
		return r.packages()
	case "image":
		return r.image()
	case "chart":
		return r.chart()
	case "sbom":
		return r.sbom()
	case "notes":
		return r.notes()
	}
	return errors.New("no function builds it")
}

// name adds a file to the results and returns its path.
func (r *release) name(format string, args ...any) string {
	name := fmt.Sprintf(format, args...)
	r.written = append(r.written, name)
	fmt.Println(" ", name)
	return filepath.Join(r.into, name)
}
