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

// opening matches the first sentence of a package comment: the name, and a verb with an object for
// what the package does, has or is.
var opening = regexp.MustCompile(`^(?:Package|Command) [\w-]+ [a-z]+s,? [^\s.:;]+ \S`)

// promise matches the words with which a package comment says what a caller may rely on. "every",
// "before" and "cannot" are not among them: they also stand in sentences that promise nothing.
var promise = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
	`promises(?::| (?:that|to|the|minimal)\b)`,
	`(?:never|always|exactly|unchanged|pure|byte for byte|each of them once)\b`,
	`(?:at most|at least|at the latest|at a time|no (?:more|longer) than)\b`,
	`(?:bounded|has bounds|bounds (?:what|how|their|its)|fixed (?:number|limits?|size))\b`,
	`(?:as a whole|whole or|changes? nothing|leaves no|survives? an?)\b`,
	`(?:(?:is|are) durable (?:in|on|before|when)|before it (?:is durable|returns))\b`,
	`(?:nothing|no) [^.;:]*\b(?:before|until)\b`,
	`only (?:if|when|after|verified)\b`,
	`whatever (?:the|it|its|they|lengths|counts|request|another)\b`,
	`in (?:this|their|the same) order\b`, `in the order of\b`,
	`the same (?:\w+ ){1,6}(?:gives?|makes?|yields?) the same\b`, `the same (?:bytes|results)\b`,
	`(?:refuse|reject)s? (?:an?|any|the|every|all|configs|settings)\b`,
	`(?:is|are) refused (?:if|with|until)\b`,
	`(?:is|are|as|with|or|causes?|returns?|gets?) an error\b`, `without (?:an )?error\b`,
	`errors? (?:names?|says?|quotes?)\b`, `cause and (?:the )?remedy\b`,
	`(?:from any goroutine|safe for concurrent use|run concurrently)\b`,
}, "|") + `)`)

// bound matches the words with which a package comment says what the package leaves to others.
var bound = regexp.MustCompile(`\b(?:must not|does not|do not|nor) (?:know|own|interpret|decide|open)s?\b` +
	`|\bknows? (?:no|nothing|neither|none|only)\b|\b(?:and|imports) no other\b|\bneeds? only\b` +
	`|\b(?:decides?|imports?|opens?|reads?|starts?|contacts?) (?:no|nothing|neither)\b|\b(?:no|without) (?:I/O|locks)\b` +
	`|\b(?:belongs to tests only|no package imports it)\b`)

// promises reports whether the comment of the package in a file must say what a caller may rely on.
// Tests and scripts have no callers.
func promises(file string) bool {
	ours := strings.HasPrefix(file, "cmd/") || strings.HasPrefix(file, "internal/") || strings.HasPrefix(file, "pkg/")
	return ours && !strings.HasPrefix(file, "internal/testing/")
}

// unsaid returns what the package comment of a file does not say.
func (f goFile) unsaid(file string) (faults []string) {
	text := strings.ReplaceAll(f.syntax.Doc.Text(), "\n", " ")
	name, kind := strings.TrimSuffix(f.syntax.Name.Name, "_test"), "Package"
	if name == "main" {
		name, kind = path.Base(path.Dir(file)), "Command"
		if f.ignored() {
			name = strings.TrimSuffix(path.Base(file), ".go")
		}
	}
	if !strings.HasPrefix(text, kind+" "+name+" ") || !opening.MatchString(text) {
		faults = append(faults, fmt.Sprintf("what the package does or owns: begin with \"%s %s\" and a verb", kind, name))
	}
	if promises(file) && !promise.MatchString(text) {
		faults = append(faults, "what the package promises: what an error means or leaves, a bound, an order, what never happens")
	}
	if !bound.MatchString(text) {
		faults = append(faults, "what the package does not know, own or decide")
	}
	return faults
}

// TestPackageCommentsSayWhatTheyOwnPromiseAndLeave checks that each package comment says what the
// package does or owns, what its callers may rely on, and what it does not know, own or decide.
// Without the last, a package takes over what another one does.
func TestPackageCommentsSayWhatTheyOwnPromiseAndLeave(t *testing.T) {
	files := goFiles(t, func(string) bool { return true })
	for _, with := range packageComments(files) {
		for _, file := range with {
			for _, fault := range files[file].unsaid(file) {
				t.Errorf("%s: the package comment does not say %s", file, fault)
			}
		}
	}
}

func TestAPackageCommentThatSaysTooLittleIsFound(t *testing.T) {
	const owns, leaves = "Package one stores the small state of a log.", "It does not know what the state means."
	for _, c := range []struct{ file, text, want string }{
		{"internal/one/a.go", owns + " Write never leaves a part of it. " + leaves, ""},
		{"internal/one/a.go", owns + " A file that is not whole\nis an error. " + leaves, ""},
		{"internal/one/a.go", owns + " Its writes are safe for\nconcurrent use. " + leaves, ""},
		{"internal/one/a.go", owns + " The daemon calls it. " + leaves, "promises"},
		{"internal/one/a.go", owns + " Each operation is in a file of its name. " + leaves, "promises"},
		{"internal/one/a.go", owns + " It counts every error and who is refused, before the daemon ends. " + leaves, "promises"},
		{"internal/one/a.go", owns + " It promises a lot of whole records, which cannot wait. " + leaves, "promises"},
		{"internal/one/a.go", owns + " Write never leaves a part of it.", "leaves"},
		{"internal/one/a.go", owns, "promises leaves"},
		{"internal/one/a.go", "Package one has helpers. Write never fails. " + leaves, "owns"},
		{"internal/one/a.go", "Package one: state in files. Write never fails. " + leaves, "owns"},
		{"internal/one/a.go", "Package two stores the small state of a log. Write never fails. " + leaves, "owns"},
		{"internal/one/a.go", "Command one stores the small state of a log. Write never fails. " + leaves, "owns"},
		{"internal/one/a.go", "This package stores the small state of a log. Write never fails. " + leaves, "owns"},
		{"internal/testing/one/a.go", owns + " " + leaves, ""},
		{"scripts/one/main.go", "Command one stores the state of a log. " + leaves, ""},
		{"scripts/one/main.go", "Command main stores the state of a log. " + leaves, "owns"},
		{"cmd/one/main.go", "Command one stores the state of a log. " + leaves, "promises"},
	} {
		name := "one"
		if path.Base(c.file) == "main.go" {
			name = "main"
		}
		f := parsed(t, map[string]string{c.file: "/*\n" + c.text + "\n*/\npackage " + name + "\n"})[c.file]
		var got []string
		for _, fault := range f.unsaid(c.file) {
			switch {
			case strings.HasPrefix(fault, "what the package does or owns"):
				got = append(got, "owns")
			case strings.HasPrefix(fault, "what the package promises"):
				got = append(got, "promises")
			default:
				got = append(got, "leaves")
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s\nmisses %q, want %q", c.file, c.text, got, c.want)
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
