package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// wordRule is a rule of .vale/Chronik that works on words: existence or substitution. `make prose`
// applies it to comments and pages; vale cannot read string literals, so these tests do.
type wordRule struct {
	Extends string            `yaml:"extends"`
	Tokens  []string          `yaml:"tokens"`
	Swap    map[string]string `yaml:"swap"`
}

// wordRules returns the expressions of all word rules with the text that replaces each.
func wordRules(t *testing.T) map[*regexp.Regexp]string {
	t.Helper()
	paths, err := filepath.Glob("../../../.vale/Chronik/*.yml")
	must.OK(t, err)
	rules := make(map[*regexp.Regexp]string)
	for _, path := range paths {
		var r wordRule
		must.OK(t, readYAML(path, &r))
		for _, token := range r.Tokens {
			rules[regexp.MustCompile(`(?i)\b(`+token+`)\b`)] = "another word"
		}
		for pattern, instead := range r.Swap {
			rules[regexp.MustCompile(`(?i)`+pattern)] = instead
		}
	}
	if len(rules) < 20 {
		t.Fatalf("only %d word rules were found in .vale/Chronik", len(rules))
	}
	return rules
}

// misused returns the words of text that a rule rejects, each with its replacement.
func misused(rules map[*regexp.Regexp]string, text string) []string {
	var found []string
	for rule, instead := range rules {
		if word := rule.FindString(text); word != "" {
			found = append(found, fmt.Sprintf("%q: write %q instead of %q", text, instead, word))
		}
	}
	slices.Sort(found)
	return found
}

// TestMessagesFollowTheWordRules applies the word rules to the string literals of at least three
// words in non-test files: errors, log lines, help texts and findings.
func TestMessagesFollowTheWordRules(t *testing.T) {
	rules := wordRules(t)
	read := 0
	for path, file := range goFiles(t, func(path string) bool { return !strings.HasSuffix(path, "_test.go") }) {
		if ast.IsGenerated(file.syntax) {
			continue
		}
		for _, m := range messages(file.syntax) {
			read++
			for _, w := range misused(rules, m.text) {
				t.Errorf("%s:%d: %s", path, file.set.Position(m.pos).Line, w)
			}
		}
	}
	if read < 1000 {
		t.Errorf("only %d messages were found", read)
	}
}

// goFile is a parsed file with the positions of its nodes.
type goFile struct {
	set    *token.FileSet
	syntax *ast.File
}

// trees holds what was parsed, by path: most tests read most files, and parsing the tree takes a
// second.
var trees sync.Map

// parse returns a file with its comments. Nothing may change it, as other tests use it, too.
func parse(path string) (goFile, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return goFile{}, err
	}
	if f, ok := trees.Load(path); ok {
		return f.(goFile), nil
	}
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	f := goFile{set, syntax}
	if err == nil {
		trees.Store(path, f)
	}
	return f, err
}

// goFiles parses the Go files of the tree whose path want accepts, whatever their build
// constraints, and returns them by path from the root. See parse.
func goFiles(t *testing.T, want func(path string) bool) map[string]goFile {
	t.Helper()
	files := make(map[string]goFile)
	walk(t, ".go", func(path string) error {
		if !want(path) {
			return nil
		}
		f, err := parse(path)
		files[strings.TrimPrefix(path, "../../../")] = f
		return err
	})
	return files
}

// walk calls visit with the path of every file of the tree that ends in ext, except below hidden
// directories and testdata.
func walk(t *testing.T, ext string, visit func(path string) error) {
	t.Helper()
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "../../.." &&
			(strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "dist", "data"}, name)):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ext:
			return nil
		}
		return visit(path)
	})
	must.OK(t, err)
}

// message is a string literal that a person may read.
type message struct {
	text string
	pos  token.Pos
}

// messages returns the string literals of file that have at least three words. Struct tags and
// import paths are not among them.
func messages(file *ast.File) []message {
	var all []message
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			return n.Tag == nil
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if err == nil && n.Kind == token.STRING && len(strings.Fields(text)) >= 3 {
				all = append(all, message{text, n.Pos()})
			}
		}
		return true
	})
	return all
}

func TestAMisusedWordIsFound(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+
		"type T struct { F string `json:\"anew once more\"` }\n"+
		"const short = \"start anew\"\n"+
		"const long = \"it starts Anew\"\n", 0)
	must.OK(t, err)
	var got []string
	for _, m := range messages(file) {
		got = append(got, misused(wordRules(t), m.text)...)
	}
	if len(got) != 1 || !strings.HasPrefix(got[0], `"it starts Anew"`) {
		t.Errorf("got %q, want one message about the third literal", got)
	}
}

// droppedNames are words that names used with several meanings, or that only the project's authors
// understood, with the words to use instead. "keep" needs an object, as in keepAlive; "look" is
// allowed only in lookup.
var droppedNames = map[string]string{
	"settle": "complete, resolve or decide", "settled": "completed, resolved or decided", "unsettled": "incomplete or undecided",
	"look": "check, inspect, read or find", "looks": "checks", "looked": "checked",
	"tidy": "the thing that is removed or deferred", "tidied": "removed or deferred",
	"bury": "schedule deletion", "buried": "deletion scheduled", "grave": "pending deletion", "graves": "pending deletions",
	"dig": "delete due", "home": "drain or flush", "aside": "quarantine",
	"cramped": "low on space", "stranger": "foreign file", "strangers": "foreign files", "dirtiest": "most dirty",
	"nobody": "the actor, or no-op", "somebody": "the actor", "whoever": "the actor", "anew": "again", "beside": "next to, with",
	"rooms": "components, packages or space", "tell": "notify or report", "told": "notified or reported", "hear": "notify",
}

// TestDroppedNamesStayOut checks the names of functions, methods and types, except tests: their
// names are sentences.
func TestDroppedNamesStayOut(t *testing.T) {
	for path, file := range goFiles(t, func(string) bool { return true }) {
		for _, d := range declared(file.syntax) {
			if instead := dropped(d.Name); instead != "" && !strings.HasPrefix(d.Name, "Test") {
				t.Errorf("%s:%d: the name %s is not used: %s", path, file.set.Position(d.Pos()).Line, d.Name, instead)
			}
		}
	}
}

// declared returns the names of the functions, methods and types that file declares.
func declared(file *ast.File) []*ast.Ident {
	var names []*ast.Ident
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if typ, ok := spec.(*ast.TypeSpec); ok {
					names = append(names, typ.Name)
				}
			}
		}
	}
	return names
}

var nameWord = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// dropped returns the words to use instead of name, or "" if name may be used.
func dropped(name string) string {
	if name == "keep" || name == "keeper" {
		return "a verb with its object: retain, store, keepAlive"
	}
	words := nameWord.FindAllString(name, -1)
	for i, word := range words {
		instead := droppedNames[strings.ToLower(word)]
		isLookup := i+1 < len(words) && strings.EqualFold(word+words[i+1], "lookup")
		if instead != "" && !isLookup {
			return instead
		}
	}
	return ""
}

func TestADroppedNameIsFound(t *testing.T) {
	for _, name := range []string{"settle", "Settled", "settleOld", "look", "lookAround", "lookClassic", "tidy", "bringHome",
		"setAside", "keep", "storageRooms", "nobody", "tell"} {
		if dropped(name) == "" {
			t.Errorf("%s is not found", name)
		}
	}
	for _, name := range []string{"lookup", "lookUp", "LookupHost", "digest", "keepAlive", "Keeper2", "bedrooms", "settings", "teller"} {
		if instead := dropped(name); instead != "" {
			t.Errorf("%s is rejected: %s", name, instead)
		}
	}
}
