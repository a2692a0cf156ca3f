package lint

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

var (
	nameRow     = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]+ \\| (`[^|]+`) \\|$")
	namePackage = regexp.MustCompile("`([^`]+)`")
)

// oneMeaning returns the names of the glossary that have one meaning, with the packages that may
// declare each.
func oneMeaning(page string) map[string][]string {
	names := make(map[string][]string)
	for _, row := range nameRow.FindAllStringSubmatch(page, -1) {
		for _, m := range namePackage.FindAllStringSubmatch(row[2], -1) {
			pkg := m[1]
			if !strings.HasPrefix(pkg, "pkg/") {
				pkg = "internal/" + pkg
			}
			names[row[1]] = append(names[row[1]], pkg)
		}
	}
	return names
}

// namesOf returns the names that a file declares for others: of its package, its types, and its
// exported functions and methods. They are in lower case and singular.
func namesOf(file *ast.File) []string {
	names := []string{file.Name.Name}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					names = append(names, t.Name.Name)
				}
				names = append(names, methods(s)...)
			}
		}
	}
	for i := range names {
		names[i] = strings.TrimSuffix(strings.ToLower(names[i]), "s")
	}
	return names
}

// methods returns the names of the exported methods of an interface.
func methods(s ast.Spec) (names []string) {
	t, _ := s.(*ast.TypeSpec)
	if t == nil {
		return nil
	}
	i, _ := t.Type.(*ast.InterfaceType)
	if i == nil {
		return nil
	}
	for _, f := range i.Methods.List {
		for _, n := range f.Names {
			if n.IsExported() {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// ambiguous compares the names that the packages of files declare, by package, with the glossary.
func ambiguous(names, declares map[string][]string) (faults []string) {
	for name, packages := range names {
		for pkg, all := range declares {
			if slices.Contains(all, name) && !slices.Contains(packages, pkg) {
				faults = append(faults, fmt.Sprintf(
					"%s declares %q, which docs/glossary.md gives one meaning in %q: choose another name", pkg, name, packages))
			}
		}
		for _, pkg := range packages {
			if !slices.Contains(declares[pkg], name) {
				faults = append(faults, fmt.Sprintf("docs/glossary.md names %s for %q, which it does not declare", pkg, name))
			}
		}
	}
	slices.Sort(faults)
	return faults
}

func TestANameOfTheGlossaryHasOneMeaning(t *testing.T) {
	page, err := os.ReadFile("../../../docs/glossary.md")
	must.OK(t, err)
	names := oneMeaning(string(page))
	if len(names) < 7 {
		t.Fatalf("the glossary has %d names with one meaning", len(names))
	}
	declares := make(map[string][]string)
	for file, f := range goFiles(t, func(p string) bool {
		return !strings.HasSuffix(p, "_test.go") && !strings.Contains(p, "/scripts/")
	}) {
		dir := path.Dir(file)
		declares[dir] = append(declares[dir], namesOf(f.syntax)...)
	}
	for _, fault := range ambiguous(names, declares) {
		t.Error(fault)
	}
}

func TestANameWithTwoMeaningsIsFound(t *testing.T) {
	names := oneMeaning("| `place` | a right | `share` `metrics` |\n")
	for _, c := range []struct {
		declares map[string][]string
		faults   int
	}{
		{map[string][]string{"internal/share": {"place"}, "internal/metrics": {"place"}, "internal/storage": {"dir"}}, 0},
		{map[string][]string{"internal/share": {"place"}, "internal/metrics": {"place"}, "internal/storage": {"place"}}, 1},
		{map[string][]string{"internal/share": {"place"}}, 1},
	} {
		if got := ambiguous(names, c.declares); len(got) != c.faults {
			t.Errorf("faults %q, want %d", got, c.faults)
		}
	}
}
