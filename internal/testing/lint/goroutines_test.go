package lint

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unchecked are packages that start goroutines and have no leak check of their own, with the
// reasons.
var unchecked = map[string]string{
	"cmd/chronik-bench":           "what it starts ends with the process",
	"cmd/chronikctl":              "what it starts ends with the process",
	"internal/testing/objecttest": "it has no tests: the tests of the stores that call it check for leaks",
	"internal/testing/storetest":  "it has no tests: the tests of the stores that call it check for leaks",
	"internal/testing/vfstest":    "it has no tests: the tests of the file systems that call it start goroutines that end with a call",
}

// starts reports whether a file has a go statement, calls a method Go, as sync.WaitGroup's, or a
// function AfterFunc, as those of time and context.
func (f goFile) starts() (found bool) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			found = found || ok && (s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc")
		}
		return !found
	})
	return found
}

// checksLeaks reports whether a test file looks for goroutines that any test of its package leaves:
// it calls goleak.VerifyTestMain. The end of a synctest bubble checks one test only.
func (f goFile) checksLeaks() (found bool) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if ok && s.Sel.Name == "VerifyTestMain" {
			x, ok := s.X.(*ast.Ident)
			found = found || ok && x.Name == "goleak"
		}
		return !found
	})
	return found
}

// leaky returns the packages that start goroutines and whose tests do not look for those that are
// left.
func leaky(files map[string]goFile) map[string]bool {
	found := make(map[string]bool)
	for path, f := range files {
		if !strings.HasSuffix(path, "_test.go") && f.starts() {
			found[filepath.Dir(path)] = true
		}
	}
	for path, f := range files {
		if strings.HasSuffix(path, "_test.go") && f.checksLeaks() {
			delete(found, filepath.Dir(path))
		}
	}
	return found
}

// TestGoroutinesAreAwaited checks that the tests of each package that starts goroutines find those
// that nothing ends. The programs in scripts are clients, and end at once.
func TestGoroutinesAreAwaited(t *testing.T) {
	found := leaky(goFiles(t, func(path string) bool { return !strings.HasPrefix(path, "../../../scripts/") }))
	for pkg := range found {
		if unchecked[pkg] == "" {
			t.Errorf("%s starts goroutines, and its tests do not find those that stay: write func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }",
				pkg)
		}
	}
	for pkg := range unchecked {
		if !found[pkg] {
			t.Errorf("%s needs no exception: its tests look for goroutines, or it starts none", pkg)
		}
	}
}

// raced returns the patterns of the packages that .ci/run tests with the race detector.
func raced(t *testing.T) (all []string) {
	t.Helper()
	b, err := os.ReadFile("../../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^race="([^"]*)"$`).FindSubmatch(b)
	if m == nil {
		t.Fatal(".ci/run has no list of packages")
	}
	return strings.Fields(string(m[1]))
}

// TestGoroutinesMeetTheRaceDetector compares the list of .ci/run with the packages of programs that
// start goroutines. Those of tools and of tests are clients.
func TestGoroutinesMeetTheRaceDetector(t *testing.T) {
	patterns := raced(t)
	found := map[string]bool{}
	for path, f := range goFiles(t, func(path string) bool { return !strings.HasPrefix(path, "../../../scripts/") }) {
		pkg := filepath.Dir(path)
		client := strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "internal/tools/") || strings.HasPrefix(pkg, "internal/testing/")
		if strings.HasSuffix(path, "_test.go") || client || !f.starts() || found[pkg] {
			continue
		}
		found[pkg] = true
		covered := slices.ContainsFunc(patterns, func(p string) bool {
			p = strings.TrimPrefix(p, "./")
			tree, deep := strings.CutSuffix(p, "/...")
			return p == pkg || deep && (pkg == tree || strings.HasPrefix(pkg, tree+"/"))
		})
		if !covered {
			t.Errorf("%s starts goroutines, and .ci/run does not test it with the race detector: add it to the list race", pkg)
		}
	}
}

func TestAMissingLeakCheckIsFound(t *testing.T) {
	found := leaky(parsed(t, map[string]string{
		"plain/a.go":        "package plain\nfunc f() { go f() }\n",
		"plain/a_test.go":   "package plain\nimport \"testing\"\n",
		"group/a.go":        "package group\nfunc f() { work.Go(f) }\n",
		"checked/a.go":      "package checked\nfunc f() { go f() }\n",
		"checked/a_test.go": "package checked\nfunc TestMain(m *testing.M) { goleak.VerifyTestMain(m) }\n",
		"later/a.go":        "package later\nfunc f() { time.AfterFunc(0, f) }\n",
		"one/a.go":          "package one\nfunc f() { go f() }\n",
		"one/a_test.go":     "package one\nimport \"testing/synctest\"\nfunc TestF(t *testing.T) { defer goleak.VerifyNone(t) }\n",
		"none/a.go":         "package none\nfunc f() { f() }\n",
		"none/a_test.go":    "package none\nfunc f() { go f() }\n",
	}))
	if len(found) != 4 || !found["plain"] || !found["group"] || !found["later"] || !found["one"] {
		t.Errorf("found %v", found)
	}
}
