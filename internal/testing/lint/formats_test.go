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
	`yaml\.Marshal|statefile\.Write\w*|statelog\.Format\{|vfs\.WriteFile|writeNew\()`)

// toolWrites matches code of the command lines that writes a text which a program may read again.
// Their other texts are for people.
var toolWrites = regexp.MustCompile(`(?m)^func (\([^)]*\) )?(Write\w*\(\w+ io\.Writer|Encode\w*\()`)

// noFormats are packages that encode, and whose bytes no file and no other program has, or that
// encode for another package.
var noFormats = map[string]string{
	"internal/bytesio":             "encodes for the formats of others",
	"internal/audit/changes":       "values in the lines of internal/audit",
	"internal/security/secret":     "encodes a secret as a text that hides it",
	"internal/coordinator/group":   "a hash in memory",
	"internal/forward":             "the length of a frame of Kafka's",
	"internal/sharegroup/window":   "the runs of a leaf, in memory only",
	"internal/telemetry":           "a hash of a subscription, which is its id in answers",
	"internal/tools/bench/results": "results of one run, which only the same version reads",
}

// noFormatFiles are files of packages with formats that encode something else.
var noFormatFiles = map[string]string{
	"internal/broker/audit_groups.go":           "values in the lines of internal/audit",
	"internal/broker/describe_quorum.go":        "an id in an answer that kmsg encodes",
	"internal/metadata/acls.go":                 "a hash, which is the id of a rule",
	"internal/metadata/model.go":                "a text in values that values.go encodes",
	"internal/shareleader/deadletter/copier.go": "a hash, which is a producer id",
	"internal/secureinit/add.go":                "writes configurations, certificates and the roster of roster.go",
	"internal/secureinit/secureinit.go":         "writes configurations and certificates",
	"internal/storage/create.go":                "writes what names.go encodes",
	"internal/storage/move_copy.go":             "copies indexes, and writes what internal/storage/txnindex encodes",
}

// formatFaults compares the tables of formats with the files that encode, and with their packages.
// encoders are the files, by their path from the root; tests are the tests of a file.
func formatFaults(page string, encoders []string, tests func(file string) string) (faults []string) {
	_, text, _ := strings.Cut(page, "\n## On the disk\n")
	named, described, whole := map[string]bool{}, map[string]bool{}, map[string]bool{}
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
		files := regexp.MustCompile("`(internal/[\\w/]+\\.go)`").FindAllStringSubmatch(cells[1], -1)
		for _, m := range files {
			if described[m[1]] = true; path.Base(m[1]) == "doc.go" {
				whole[path.Dir(m[1])] = true
			}
		}
		if len(files) == 0 { // a page describes what the packages of the row encode
			for _, m := range regexp.MustCompile("`(internal/[\\w/]+)/\\w+\\.go`").FindAllStringSubmatch(line, -1) {
				whole[m[1]] = true
			}
		}
	}
	dirs := map[string]bool{}
	for _, file := range encoders {
		switch p := path.Dir(file); {
		case noFormats[p] != "":
		case !named[p] && !dirs[p]:
			faults = append(faults, p+" encodes something that no table of formats names")
		case named[p] && !whole[p] && !described[file] && noFormatFiles[file] == "":
			faults = append(faults, file+" encodes something, and no row names it as the file that describes its bytes")
		}
		dirs[path.Dir(file)] = true
	}
	for p := range maps.Keys(noFormats) {
		if !dirs[p] {
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
		if inAny(name, []string{"internal/testing/..."}) || !inAny(name, []string{"internal/..."}) {
			continue
		}
		writes := encodes
		if inAny(name, []string{"internal/tools/..."}) {
			writes = toolWrites
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			must.OK(t, err)
			if writes.Match(text) {
				encoders = append(encoders, path.Join(name, file))
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
	for file := range noFormatFiles {
		if !slices.Contains(encoders, file) {
			t.Errorf("%s encodes nothing: remove it from noFormatFiles", file)
		}
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
	encoders := []string{"internal/a/a.go"}
	for p := range maps.Keys(noFormats) {
		encoders = append(encoders, p+"/x.go")
	}
	encoders = slices.Clip(encoders)
	for _, c := range []struct {
		page     string
		encoders []string
		want     string
	}{
		{page, encoders, ""},
		{page, append(encoders, "internal/b/b.go"), "internal/b encodes something that no table of formats names"},
		{page, append(encoders, "internal/a/b.go"), "internal/a/b.go encodes something, and no row names it"},
		{strings.Replace(page, "/a.go` |", "/doc.go` |", 1), append(encoders, "internal/a/b.go"), ""},
		{page, []string{"internal/a/a.go"}, "encodes nothing"},
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
