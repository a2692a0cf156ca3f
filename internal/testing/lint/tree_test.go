package lint

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

const module = "github.com/chronik-io/chronik"

// pkg is the part of the output of `go list -json` that the rules use.
type pkg struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
}

// name returns the import path without the module path.
func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// files returns the paths of all Go files, tests included.
func (p pkg) files() []string {
	var all []string
	for _, group := range [][]string{p.GoFiles, p.TestGoFiles, p.XTestGoFiles} {
		for _, f := range group {
			all = append(all, filepath.Join(p.Dir, f))
		}
	}
	return all
}

// listed runs once per test binary: `go list` takes a second.
var listed = sync.OnceValues(func() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

func packages(t *testing.T) []pkg {
	t.Helper()
	all, err := listed()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if len(all) < 3 {
		t.Fatalf("go list found %d packages", len(all))
	}
	return all
}

// matches reports whether path is pattern or, if pattern ends in "/...", lies below it.
func matches(path, pattern string) bool {
	base, tree := strings.CutSuffix(pattern, "/...")
	return path == base || tree && strings.HasPrefix(path, base+"/")
}

func inAny(path string, patterns []string) bool {
	for _, p := range patterns {
		if matches(path, p) {
			return true
		}
	}
	return false
}

// breaches returns the forbidden imports of package name.
func breaches(name string, imports []string, r importRule) []string {
	var wrong []string
	for _, imp := range imports {
		inner, ours := strings.CutPrefix(imp, module+"/")
		switch {
		case ours && !inAny(inner, r.may) && !inAny(inner, r.common) && !slices.Contains(ground, inner):
			wrong = append(wrong, name+" imports "+inner+": "+r.because)
		case !ours && inAny(imp, r.never):
			wrong = append(wrong, name+" imports "+imp+": "+r.because)
		}
	}
	return wrong
}

func TestImportsGoOneWay(t *testing.T) {
	rules := importRules()
	for _, p := range packages(t) {
		r, known := rules[p.name()]
		if !known {
			t.Errorf("%s has no import rule: add it to imports_test.go and to docs/architecture.md", p.name())
			continue
		}
		for _, b := range breaches(p.name(), p.Imports, r) {
			t.Error(b)
		}
	}
}

// TestImportRulesAreUsed rejects permissions that no file uses: each would allow an import
// that was never decided. Files of all platforms and build tags count.
func TestImportRulesAreUsed(t *testing.T) {
	rules := importRules()
	for _, p := range packages(t) {
		imports, err := importsOf(p.Dir)
		must.OK(t, err)
		for _, entry := range unused(imports, rules[p.name()]) {
			t.Errorf("%s may import %s and does not: remove the entry from imports_test.go", p.name(), entry)
		}
		delete(rules, p.name())
	}
	for name := range rules {
		t.Errorf("imports_test.go has a rule of %s, which is no package", name)
	}
}

// importsOf returns the imports of the non-test Go files of dir, whatever their build constraints.
func importsOf(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, spec := range file.Imports {
			all = append(all, strings.Trim(spec.Path.Value, `"`))
		}
	}
	return all, nil
}

// unused returns the entries of r.may that match none of the imports.
func unused(imports []string, r importRule) []string {
	var entries []string
	for _, entry := range r.may {
		if !slices.ContainsFunc(imports, func(imp string) bool {
			inner, ours := strings.CutPrefix(imp, module+"/")
			return ours && matches(inner, entry)
		}) {
			entries = append(entries, entry)
		}
	}
	return entries
}

func TestAnUnusedEntryIsFound(t *testing.T) {
	r := importRule{may: []string{"internal/vfs", "internal/storage/...", "internal/record", "os/..."}}
	got := unused([]string{"os", module + "/internal/vfs/ram", module + "/internal/storage", module + "/internal/record"}, r)
	if want := []string{"internal/vfs", "os/..."}; !slices.Equal(got, want) {
		t.Errorf("unused entries %q, want %q", got, want)
	}
}

// layer is what the directions are about: a folder of internal, pkg, cmd or scripts, with all
// packages below it.
func layer(name string) string {
	parts := strings.SplitN(name, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// cycle returns a circle of layers as the imports that the table allows, or nothing.
func cycle(rules map[string]importRule) []string {
	above := map[string]map[string]string{} // by layer, the layers that it may import, with an example
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		r := rules[name]
		for other := range rules {
			from, to := layer(name), layer(other)
			if from == to || !inAny(other, r.may) && !inAny(other, r.common) {
				continue
			}
			if above[from] == nil {
				above[from] = map[string]string{}
			}
			above[from][to] = name + " may import " + other
		}
	}
	done := map[string]bool{}
	var visit func(at string, path []string) []string
	visit = func(at string, path []string) []string {
		if i := slices.Index(path, at); i >= 0 {
			var circle []string
			for path = append(path[i:], at); len(path) > 1; path = path[1:] {
				circle = append(circle, above[path[0]][path[1]])
			}
			return circle
		}
		if done[at] {
			return nil
		}
		done[at] = true
		for _, to := range slices.Sorted(maps.Keys(above[at])) {
			if circle := visit(to, append(path[:len(path):len(path)], at)); circle != nil {
				return circle
			}
		}
		return nil
	}
	for _, at := range slices.Sorted(maps.Keys(above)) {
		if circle := visit(at, nil); circle != nil {
			return circle
		}
	}
	return nil
}

// The table has a direction: following "may" never leads from a layer back to it. Packages may have
// one while their folders have none: then a reader of one folder needs the other first.
func TestImportRulesHaveNoCycle(t *testing.T) {
	if circle := cycle(importRules()); circle != nil {
		t.Errorf("layers import each other:\n%s", strings.Join(circle, "\n"))
	}
}

func TestACycleOfLayersIsFound(t *testing.T) {
	rules := map[string]importRule{
		"internal/a": {may: []string{"internal/b"}}, "internal/b": {}, "internal/b/x": {common: []string{"internal/c/..."}},
		"internal/c/y": {}, "internal/c": {}, "internal/d": {may: []string{"internal/a", "internal/b/x", "internal/c"}},
	}
	if circle := cycle(rules); circle != nil {
		t.Errorf("a table without a circle has one: %q", circle)
	}
	rules["internal/c"] = importRule{may: []string{"internal/a"}}
	want := []string{"internal/a may import internal/b", "internal/b/x may import internal/c", "internal/c may import internal/a"}
	got := cycle(rules)
	if len(got) != len(want) || got[0] != want[0] || got[2] != want[2] {
		t.Errorf("got %q, want %q", got, want)
	}
}

// closed is a folder that only its own packages, those in open, and tests import. Only the
// programs that are named contain it.
type closed struct {
	packages string
	open     []string
	programs []string // below cmd
	because  string
}

var closedFolders = []closed{
	{"internal/testing/...", nil, nil, "which is only for tests: faults and simulations are no part of a program"},
	{"internal/tools/ctl/...", []string{"cmd/chronikctl", "scripts/man"}, []string{"chronikctl"},
		"which is chronikctl: a broker knows no tool"},
	{"internal/tools/bench/...", []string{"cmd/chronik-bench", "scripts/man"}, []string{"chronik-bench"},
		"which is chronik-bench: a broker knows no tool"},
}

func TestClosedFolders(t *testing.T) {
	for _, p := range packages(t) {
		imports, err := importsOf(p.Dir)
		must.OK(t, err)
		for _, wrong := range intruders(p.name(), imports) {
			t.Errorf("%s imports %s", p.name(), wrong)
		}
	}
	for _, program := range []string{"chronikd", "chronikctl", "chronik-bench"} {
		for _, dep := range contents(t, program) {
			for _, r := range closedFolders {
				if matches(dep, r.packages) && !slices.Contains(r.programs, program) {
					t.Errorf("cmd/%s contains %s, %s", program, dep, r.because)
				}
			}
		}
	}
}

// intruders returns the imports of package name from folders that are closed to it, with reasons.
func intruders(name string, imports []string) (wrong []string) {
	for _, imp := range imports {
		inner, ours := strings.CutPrefix(imp, module+"/")
		for _, r := range closedFolders {
			if ours && matches(inner, r.packages) && !matches(name, r.packages) && !slices.Contains(r.open, name) {
				wrong = append(wrong, inner+", "+r.because)
			}
		}
	}
	return wrong
}

func TestAnImportFromAClosedFolderIsFound(t *testing.T) {
	imports := []string{"testing", module + "/internal/testing/errfs", module + "/internal/tools/ctl/app", module + "/internal/vfs"}
	for name, want := range map[string]int{"internal/vfs/ram": 2, "internal/testing/vfstest": 1, "internal/tools/ctl": 1,
		"internal/tools/bench": 2, "cmd/chronikctl": 1, "cmd/chronikd": 2} {
		if got := intruders(name, imports); len(got) != want {
			t.Errorf("%s: found %q", name, got)
		}
	}
}

// contents returns the packages of this module that a program contains.
func contents(t *testing.T, program string) (all []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"/cmd/"+program).Output()
	if err != nil {
		t.Fatalf("go list -deps: %v", err)
	}
	for _, path := range strings.Fields(string(out)) {
		if inner, ours := strings.CutPrefix(path, module+"/"); ours {
			all = append(all, inner)
		}
	}
	return all
}

func TestABreachIsNamedWithItsReason(t *testing.T) {
	r := importRule{may: []string{"internal/vfs", "internal/storage/..."}, never: []string{"os", "example.com/x/..."}, because: "so it is"}
	got := breaches("internal/x", []string{
		"fmt", "os", "example.com/x/y", module + "/internal/vfs", module + "/internal/testing/crashfs",
		module + "/internal/storage/journal",
	}, r)
	want := []string{
		"internal/x imports os: so it is",
		"internal/x imports example.com/x/y: so it is",
		"internal/x imports internal/testing/crashfs: so it is",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNoPackageIsACupboard(t *testing.T) {
	for _, p := range packages(t) {
		switch base := filepath.Base(p.ImportPath); base {
		case "util", "utils", "common", "types", "helpers", "models", "misc", "shared":
			t.Errorf("%s: a package is named after what it owns, not %q", p.name(), base)
		}
	}
}

const (
	maxFileLines = 800
	maxFuncLines = 100
)

func TestFilesAndFunctionsFitInAHead(t *testing.T) {
	for _, p := range packages(t) {
		for _, path := range p.files() {
			f, err := parse(path)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			fset, file := f.set, f.syntax
			short := p.name() + "/" + filepath.Base(path)
			if n := fset.File(file.Pos()).LineCount(); n > maxFileLines {
				t.Errorf("%s has %d lines, more than %d: split it by what it does", short, n, maxFileLines)
			}
			for _, d := range file.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; n > maxFuncLines {
					t.Errorf("%s: %s has %d lines, more than %d", short, fn.Name.Name, n, maxFuncLines)
				}
			}
			for _, c := range unowned(file) {
				t.Errorf("%s: %q names no owner: write who will do it, as in %s(name)", short, c, c)
			}
		}
	}
}

// unowned returns the markers of unfinished work without an owner.
func unowned(file *ast.File) []string {
	var found []string
	for _, group := range file.Comments {
		for _, word := range strings.Fields(group.Text()) {
			word = strings.TrimRight(word, ":,.")
			if word == "TODO" || word == "FIXME" || word == "XXX" || word == "HACK" {
				found = append(found, word)
			}
		}
	}
	return found
}

// A main starts code of another package, which can be tested there.
func TestMainsAreShort(t *testing.T) {
	mains, err := filepath.Glob("../../../cmd/*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("no main found: %v", err)
	}
	for _, path := range mains {
		b, err := os.ReadFile(path)
		must.OK(t, err)
		if n := strings.Count(string(b), "\n"); n > 40 {
			t.Errorf("%s has %d lines, more than 40", path, n)
		}
	}
}
