package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// breakrulesTag is the first line of a file that only builds with the tag breakrules have.
const breakrulesTag = "//go:build breakrules\n"

// The switches that remove a rule exist only with the tag breakrules: the test of package
// breakrules checks that an ordinary build has none, and no other package has code for that tag.
func TestOrdinaryBuildHasNoBrokenRules(t *testing.T) {
	var tagged []string
	walk(t, ".go", func(file string) error {
		text, err := os.ReadFile(file)
		if !strings.HasSuffix(file, "_test.go") && strings.HasPrefix(string(text), breakrulesTag) {
			tagged = append(tagged, file)
		}
		return err
	})
	if !slices.Equal(tagged, []string{"../../../internal/breakrules/on.go"}) {
		t.Errorf("files of builds with the tag breakrules: %q", tagged)
	}
}

// ruleFiles returns the files below internal that declare the rules which tests remove: every
// broken.go, and the file with the rules of code that the walks replace.
func ruleFiles(t *testing.T) (list []string) {
	t.Helper()
	walk(t, ".go", func(file string) error {
		name := strings.TrimPrefix(file, "../../../internal/")
		if filepath.Base(name) == "broken.go" || name == "testing/sim/rules_test.go" {
			list = append(list, name)
		}
		return nil
	})
	return list
}

// removable is a rule that tests remove.
type removable struct {
	pkg, name string
	without   string // what happens then
}

// Every rule that can be removed has a test that removes it and must then fail. docs/invariants.md
// lists them.
func TestEveryRuleIsRemovedByATest(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("| without the rule | its name | tests that fail then |\n|---|---|---|\n")
	seen := 0
	for _, file := range ruleFiles(t) {
		for _, r := range rulesOf(t, file) {
			tests := removers(t, r)
			if len(tests) == 0 {
				t.Errorf("no test removes the rule %s of internal/%s", r.name, r.pkg)
			}
			fmt.Fprintf(&rows, "| %s | `%s.%s` | %s |\n", r.without, filepath.Base(r.pkg), r.name, strings.Join(tests, ", "))
			seen++
		}
	}
	if seen < 70 {
		t.Errorf("%d rules are found", seen)
	}
	golden.Part(t, "../../../docs/invariants.md", "removed rules", rows.String(), "go test ./internal/testing/lint -run EveryRule")
}

// The Makefile, CI and the pages run the tests with the tag breakrules by -run Rule. One with
// another name would run nowhere.
func TestTestsOfRulesHaveRuleInTheirName(t *testing.T) {
	seen := 0
	walk(t, ".go", func(name string) error {
		text, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(text), breakrulesTag) {
			return err
		}
		file, err := parse(name)
		must.OK(t, err)
		for _, d := range file.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			if seen++; !strings.Contains(f.Name.Name, "Rule") {
				t.Errorf("%s: -run Rule does not run %s; put Rule into its name", name, f.Name.Name)
			}
		}
		return nil
	})
	if seen < 30 {
		t.Errorf("%d tests are found", seen)
	}
}

// The variable RULES of the Makefile, whose packages make test tests with the tag breakrules, names
// every package that declares rules, and no other.
func TestMakeTestsEveryPackageWithRules(t *testing.T) {
	text, err := os.ReadFile("../../../Makefile")
	must.OK(t, err)
	_, list, ok := strings.Cut(string(text), "\nRULES := ")
	if !ok {
		t.Fatal("the Makefile does not set RULES")
	}
	list, _, _ = strings.Cut(strings.ReplaceAll(list, "\\\n", " "), "\n")
	tested, declared := strings.Fields(list), []string{}
	for _, file := range ruleFiles(t) {
		declared = append(declared, "./internal/"+filepath.Dir(file)+"/")
	}
	for _, dir := range declared {
		if !slices.Contains(tested, dir) {
			t.Errorf("RULES of the Makefile lacks %s, which declares rules", dir)
		}
	}
	for _, dir := range tested {
		if !slices.Contains(declared, dir) {
			t.Errorf("RULES of the Makefile has %s, which declares no rules", dir)
		}
	}
}

// rulesOf returns the constants of the type rule, or Rule, in a file below internal.
func rulesOf(t *testing.T, name string) (list []removable) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../"+name, nil, parser.ParseComments)
	must.OK(t, err)
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		if first, ok := g.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); !ok || !strings.EqualFold(first.Name, "rule") {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			text := strings.TrimSpace(v.Comment.Text())
			if text == "" {
				t.Errorf("internal/%s: the line of %s does not say what happens without the rule", name, v.Names[0].Name)
			}
			list = append(list, removable{filepath.Dir(name), v.Names[0].Name, text})
		}
	}
	return list
}

// removers returns the tests that remove a rule: those with the tag breakrules that mention it, or
// a declaration of their file that does.
func removers(t *testing.T, r removable) (tests []string) {
	t.Helper()
	for _, dir := range []string{r.pkg, filepath.Dir(r.pkg), "testing/sim", "testing/brokers"} {
		files, err := filepath.Glob("../../" + dir + "/*_test.go")
		must.OK(t, err)
		for _, name := range files {
			file, err := parse(name)
			must.OK(t, err)
			if !file.breaksRules() {
				continue
			}
			for _, test := range mentioning(file.syntax, r, dir == r.pkg) {
				tests = append(tests, "`"+dir+"."+test+"`")
			}
		}
	}
	slices.Sort(tests)
	return slices.Compact(tests)
}

// breaksRules reports whether a file only builds with the tag breakrules.
func (f goFile) breaksRules() bool {
	c := f.syntax.Comments
	return len(c) > 0 && f.set.Position(c[0].Pos()).Offset == 0 && c[0].List[0].Text+"\n" == breakrulesTag
}

// mentioning returns the tests of a file that mention a rule. own reports whether the file belongs
// to the package that declares the rule.
func mentioning(file *ast.File, r removable, own bool) (tests []string) {
	wanted := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			return ok && x.Name == filepath.Base(r.pkg) && n.Sel.Name == r.name
		case *ast.Ident:
			return own && n.Name == r.name
		}
		return false
	}
	declared := map[string]bool{} // names of variables and functions that mention it
	for range 2 {                 // a test, or what it uses
		for _, d := range file.Decls {
			found := false
			var visit func(n ast.Node) bool
			visit = func(n ast.Node) bool {
				if pair, ok := n.(*ast.KeyValueExpr); ok { // its key may be a field of the same name
					ast.Inspect(pair.Value, visit)
					return false
				}
				id, ok := n.(*ast.Ident)
				found = found || wanted(n) || ok && declared[id.Name]
				return !found
			}
			ast.Inspect(d, visit)
			switch d := d.(type) {
			case *ast.FuncDecl:
				if found && strings.HasPrefix(d.Name.Name, "Test") {
					tests = append(tests, d.Name.Name)
				} else if found && d.Recv == nil {
					declared[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && found {
						declared[v.Names[0].Name] = true
					}
				}
			}
		}
	}
	return tests
}
