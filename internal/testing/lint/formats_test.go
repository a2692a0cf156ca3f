package lint

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// encodes matches code that makes bytes for a file or for another process.
var encodes = regexp.MustCompile(`\b(binary\.(Append\w+|\w+Endian\.(Put|Append)\w+)|bytesio\.Append|json\.(Marshal\w*|NewEncoder)|` +
	`yaml\.Marshal|statefile\.Write\w*|statelog\.Format\{)`)

// noFormats are packages that encode, and whose bytes no file and no other program has, or that
// encode for another package.
var noFormats = map[string]string{
	"internal/bytesio":           "encodes for the formats of others",
	"internal/audit/changes":     "values in the lines of internal/audit",
	"internal/security/secret":   "encodes a secret as a text that hides it",
	"internal/broker":            "an id in an answer that kmsg encodes",
	"internal/coordinator/group": "a hash in memory",
	"internal/forward":           "the length of a frame of Kafka's",
	"internal/sharegroup/window": "the runs of a leaf, in memory only",
	"internal/telemetry":         "a hash of a subscription, which is its id in answers",
}

// formatFaults compares the tables of formats with the packages that encode. encoders are those, by
// their path from the root; tests are the tests of a file.
func formatFaults(page string, encoders []string, tests func(file string) string) (faults []string) {
	_, text, _ := strings.Cut(page, "\n## On the disk\n")
	named := map[string]bool{}
	inFile := regexp.MustCompile("((?:`(?:Test|Fuzz)\\w+`(?:, )?)+) in `([\\w/]+_test\\.go)`")
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == "format" {
			continue
		}
		if len(cells) != 5 {
			faults = append(faults, fmt.Sprintf("%d columns instead of 5 for %s", len(cells), cells[0]))
			continue
		}
		held, fuzz := inFile.FindAllStringSubmatch(cells[3], -1), inFile.FindAllStringSubmatch(cells[4], -1)
		if !strings.Contains(cells[3], "`Test") || len(held) == 0 {
			faults = append(faults, "no test holds the bytes of "+cells[0])
		}
		if (!strings.Contains(cells[4], "`Fuzz") || len(fuzz) == 0) && !strings.HasPrefix(cells[4], "none: ") {
			faults = append(faults, "no fuzz target decodes "+cells[0])
		}
		for _, m := range slices.Concat(held, fuzz) {
			for name := range strings.SplitSeq(m[1], ", ") {
				if name = strings.Trim(name, "`"); !strings.Contains(tests(m[2]), "func "+name+"(") {
					faults = append(faults, fmt.Sprintf("%s has no %s", m[2], name))
				}
			}
		}
		for _, m := range regexp.MustCompile("`(internal/[\\w/]+)/\\w+\\.go`").FindAllStringSubmatch(line, -1) {
			named[m[1]] = true
		}
	}
	for _, p := range encoders {
		if !named[p] && noFormats[p] == "" {
			faults = append(faults, p+" encodes something that no table of formats names")
		}
	}
	for p := range maps.Keys(noFormats) {
		if !slices.Contains(encoders, p) {
			faults = append(faults, p+" encodes nothing")
		}
	}
	slices.Sort(faults)
	return faults
}

// The tables of docs/formats.md name all formats, a test of the bytes of each, and a fuzz target of
// its decoder, or the reason for none.
func TestFormatsAreListed(t *testing.T) {
	var encoders []string
	for _, p := range packages(t) {
		name := p.name()
		if inAny(name, []string{"internal/testing/...", "internal/tools/..."}) || !inAny(name, []string{"internal/..."}) {
			continue
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			must.OK(t, err)
			if encodes.Match(text) {
				encoders = append(encoders, name)
				break
			}
		}
	}
	tests := func(file string) string {
		text, err := os.ReadFile(path.Join("../../..", file))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	for _, fault := range formatFaults(pages(t)["docs/formats.md"], encoders, tests) {
		t.Errorf("docs/formats.md: %s", fault)
	}
}

func TestAMissingFormatIsFound(t *testing.T) {
	const page = "\n## On the disk\n\n| format | described | version | test | fuzz |\n|---|---|---|---|---|\n" +
		"| a | `internal/a/a.go` | 1 | `TestA` in `internal/a/a_test.go` | `FuzzA`, `FuzzB` in `internal/a/fuzz_test.go` |\n"
	tests := func(file string) string {
		if file == "internal/a/fuzz_test.go" {
			return "func FuzzA(f *testing.F) {}\nfunc FuzzB(f *testing.F) {}"
		}
		return "func TestA(t *testing.T) {"
	}
	encoders := append(slices.Collect(maps.Keys(noFormats)), "internal/a")
	for _, c := range []struct {
		page     string
		encoders []string
		want     string
	}{
		{page, encoders, ""},
		{page, append(encoders, "internal/b"), "internal/b encodes something that no table of formats names"},
		{page, []string{"internal/a"}, "encodes nothing"},
		{strings.Replace(page, "`TestA`", "`TestB`", 1), encoders, "internal/a/a_test.go has no TestB"},
		{strings.Replace(page, "`TestA` in `internal/a/a_test.go`", "–", 1), encoders, "no test holds the bytes of a"},
		{strings.Replace(page, "`FuzzB`", "`FuzzC`", 1), encoders, "internal/a/fuzz_test.go has no FuzzC"},
		{strings.Replace(page, "`FuzzA`, `FuzzB` in `internal/a/fuzz_test.go`", "none", 1), encoders, "no fuzz target decodes a"},
		{strings.Replace(page, "`FuzzA`, `FuzzB` in `internal/a/fuzz_test.go`", "none: no program reads it", 1), encoders, ""},
		{strings.Replace(page, " | `FuzzA`, `FuzzB` in `internal/a/fuzz_test.go`", "", 1), encoders, "4 columns instead of 5 for a"},
		{"", encoders, "internal/a encodes something"},
	} {
		got := strings.Join(formatFaults(c.page, c.encoders, tests), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
