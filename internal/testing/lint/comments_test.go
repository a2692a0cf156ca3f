package lint

import (
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

var (
	docHeading = regexp.MustCompile(`^// # \S`)
	// flatItem is a list item that go doc would print as part of a paragraph: items are indented.
	flatItem = regexp.MustCompile(`^// ([-*•+]|\d+[.)]) `)
)

// brokenBlocks returns the lines of a comment that go doc prints as part of a paragraph although
// they are meant as a heading or a list item. gofmt does not change them.
func brokenBlocks(lines []string) (broken []string) {
	empty := func(i int) bool { return i < 0 || i >= len(lines) || strings.TrimSpace(lines[i]) == "//" }
	for i, line := range lines {
		switch {
		case docHeading.MatchString(line) && !(empty(i-1) && empty(i+1)):
			broken = append(broken, fmt.Sprintf("%q is no heading without an empty // line before and after it", line))
		case flatItem.MatchString(line) && (empty(i-1) || flatItem.MatchString(lines[i-1])):
			broken = append(broken, fmt.Sprintf("%q is no list item: indent it, as in \"//   - item\"", line))
		}
	}
	return broken
}

// blocks returns the broken blocks of a file, each with its line.
func (f goFile) blocks() (broken []string) {
	for _, group := range f.syntax.Comments {
		var lines []string
		for _, c := range group.List {
			lines = append(lines, c.Text)
		}
		for _, b := range brokenBlocks(lines) {
			broken = append(broken, fmt.Sprintf("%d: %s", f.set.Position(group.Pos()).Line, b))
		}
	}
	return broken
}

// TestCommentsKeepTheirBlocks checks that headings and lists in comments are printed as such.
func TestCommentsKeepTheirBlocks(t *testing.T) {
	for name, file := range goFiles(t, func(string) bool { return true }) {
		for _, b := range file.blocks() {
			t.Errorf("%s:%s", name, b)
		}
	}
}

func TestABrokenBlockIsFound(t *testing.T) {
	for text, want := range map[string]int{
		"// a text\n//\n// # Heading\n//\n// more":         0,
		"// # Heading\n//\n// more":                        0,
		"// a text\n// # Heading\n//\n// more":             1,
		"// a text\n//\n// # Heading\n// more":             1,
		"// a text\n//   - an item\n//   - another one":    0,
		"// a text\n//\n// - an item\n// - another one":    2,
		"// a text: 3\n// - 2 is 1, and item #1\n// #1234": 0,
	} {
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, "x.go", text+"\npackage x\n", parser.ParseComments)
		must.OK(t, err)
		if got := (goFile{set, syntax}).blocks(); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
}

// packageComments returns the files of each package that have its comment. Files are keyed by path,
// as goFiles returns them. A file that go list ignores, because a script builds it elsewhere, is a
// package of its own. Tests are not asked unless a package has nothing else.
func packageComments(files map[string]goFile) map[string][]string {
	found, tests := make(map[string][]string), make(map[string][]string)
	for name, file := range files {
		of, in := path.Dir(name), found
		if strings.HasSuffix(name, "_test.go") {
			in = tests
		}
		if file.ignored() {
			of = name
		}
		with := in[of]
		if strings.TrimSpace(file.syntax.Doc.Text()) != "" {
			with = append(with, name)
		}
		in[of] = with // also without any
	}
	for of, with := range tests {
		if _, ok := found[of]; !ok {
			found[of] = with
		}
	}
	return found
}

func (f goFile) ignored() bool {
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			if c.Text == "//go:build ignore" && c.Pos() < f.syntax.Package {
				return true
			}
		}
	}
	return false
}

// TestEveryPackageSaysWhatItIs checks that each package has one comment. Of two, readers find one,
// and what changes is written into the other.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for of, with := range packageComments(goFiles(t, func(string) bool { return true })) {
		switch slices.Sort(with); {
		case len(with) == 0:
			t.Errorf("%s has no package comment: say what it owns, what it promises, who calls it, what it must not know", of)
		case len(with) > 1:
			t.Errorf("%s has package comments in %s: keep one", of, strings.Join(with, " and "))
		}
	}
}

// bound matches the words with which a package comment says what the package leaves to others.
var bound = regexp.MustCompile(`\b(?:must not|does not|do not|nor) (?:know|own|interpret|decide|open)s?\b` +
	`|\bknows? (?:no|nothing|neither|none|only)\b|\b(?:and|imports) no other\b|\bneeds? only\b` +
	`|\b(?:decides?|imports?|opens?|reads?|starts?|contacts?) (?:no|nothing|neither)\b|\b(?:no|without) (?:I/O|locks)\b` +
	`|\b(?:belongs to tests only|no package imports it)\b`)

// TestComponentsSayWhatTheyLeaveToOthers checks that each package comment says what the package
// does not know, own or decide. Without that, a package takes over what another one does.
func TestComponentsSayWhatTheyLeaveToOthers(t *testing.T) {
	files := goFiles(t, func(string) bool { return true })
	for _, with := range packageComments(files) {
		for _, path := range with {
			if text := strings.ReplaceAll(files[path].syntax.Doc.Text(), "\n", " "); !bound.MatchString(text) {
				t.Errorf("%s: the package comment does not say what the package does not know, own or decide", path)
			}
		}
	}
}

// claimFaults compares what the package comments claim about imports with the imports. imports has
// those of each package's code without its tests; all paths are without the module path.
func claimFaults(comments map[string]string, imports map[string][]string) (faults []string) {
	for of, text := range comments {
		if strings.Contains(text, " no other package of ") && len(imports[of]) > 0 {
			faults = append(faults, fmt.Sprintf("%s imports %s, and its comment says that it knows no other package", of, imports[of][0]))
		}
		for by, all := range imports {
			if !slices.Contains(all, of) {
				continue
			}
			if strings.Contains(text, "no package imports it") {
				faults = append(faults, fmt.Sprintf("%s imports %s, whose comment says that no package does", by, of))
			}
			if strings.Contains(text, "belongs to tests only") && !strings.HasPrefix(by, "internal/testing/") {
				faults = append(faults, fmt.Sprintf("%s imports %s, which belongs to tests only", by, of))
			}
		}
	}
	slices.Sort(faults)
	return faults
}

// TestPackageCommentsClaimWhatTheImportsSay checks the claims that imports can refute.
func TestPackageCommentsClaimWhatTheImportsSay(t *testing.T) {
	comments, imports := map[string]string{}, map[string][]string{}
	for path, f := range goFiles(t, func(path string) bool { return !strings.HasSuffix(path, "_test.go") }) {
		if f.syntax.Doc != nil {
			comments[filepath.Dir(path)] = strings.ReplaceAll(f.syntax.Doc.Text(), "\n", " ")
		}
	}
	for _, p := range packages(t) {
		for _, of := range p.Imports {
			if name, ok := strings.CutPrefix(of, module+"/"); ok {
				imports[p.name()] = append(imports[p.name()], name)
			}
		}
	}
	for _, fault := range claimFaults(comments, imports) {
		t.Error(fault)
	}
}

func TestAFalseClaimIsFound(t *testing.T) {
	comments := map[string]string{
		"internal/leaf":            "Package leaf imports no other package of this module.",
		"internal/testing/lent":    "Package lent lends. It belongs to tests only.",
		"internal/testing/nothing": "Package nothing has no code, and no package imports it.",
	}
	imports := map[string][]string{"internal/testing/other": {"internal/testing/lent"}, "internal/broker": {"internal/leaf"}}
	if got := claimFaults(comments, imports); len(got) > 0 {
		t.Errorf("%q, want none", got)
	}
	imports["internal/leaf"] = []string{"internal/text"}
	imports["internal/broker"] = []string{"internal/testing/lent", "internal/testing/nothing"}
	want := "internal/broker imports internal/testing/lent, which belongs to tests only\n" +
		"internal/broker imports internal/testing/nothing, whose comment says that no package does\n" +
		"internal/leaf imports internal/text, and its comment says that it knows no other package"
	if got := strings.Join(claimFaults(comments, imports), "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// parsed parses texts of Go files, by path.
func parsed(t *testing.T, texts map[string]string) map[string]goFile {
	t.Helper()
	files := make(map[string]goFile)
	for name, text := range texts {
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, name, text, parser.ParseComments)
		must.OK(t, err)
		files[name] = goFile{set, syntax}
	}
	return files
}

func TestAMissingPackageCommentIsFound(t *testing.T) {
	files := parsed(t, map[string]string{
		"one/a.go":            "// Package one is one.\npackage one\n",
		"one/b.go":            "package one\n",
		"one/a_test.go":       "// A comment of a test.\npackage one\n",
		"two/a.go":            "// Package two is two.\npackage two\n",
		"two/b.go":            "// Package two has more.\npackage two\n",
		"apart/a.go":          "// Package apart is separated.\n\npackage apart\n",
		"only/a_test.go":      "// Package only tests.\npackage only\n",
		"tag/a.go":            "//go:build linux\npackage tag\n",
		"program/main.go":     "// Command program runs.\npackage main\n",
		"program/other.go":    "//go:build ignore\n\n// Built elsewhere.\npackage main\n",
		"program/unsaid.go":   "// Built elsewhere.\n\n//go:build ignore\n\npackage main\n",
		"program/unsaid_b.go": "//go:build ignore\npackage main\n",
	})
	want := map[string]int{"one": 1, "two": 2, "apart": 0, "only": 1, "tag": 0, "program": 1, "program/other.go": 1,
		"program/unsaid.go": 0, "program/unsaid_b.go": 0}
	got := packageComments(files)
	for of, n := range want {
		if len(got[of]) != n {
			t.Errorf("%s: %q, want %d", of, got[of], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("packages %v", got)
	}
}
