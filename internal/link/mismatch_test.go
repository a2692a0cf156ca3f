package link

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever does not match, its error says what to do.
func TestEveryMismatchHasARemedy(t *testing.T) {
	seen := 0
	for _, dir := range []string{".", "../cluster", "../guard"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				cause, remedy := fieldsOf(n)
				if cause {
					seen++
				}
				if cause && !remedy {
					t.Errorf("%s: a Mismatch with a Cause and without a Remedy", name)
				}
				return true
			})
		}
	}
	if seen < 10 {
		t.Errorf("%d are found", seen)
	}
}

// fieldsOf reports which fields a literal of a Mismatch sets.
func fieldsOf(n ast.Node) (cause, remedy bool) {
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		return false, false
	}
	for _, e := range lit.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				cause, remedy = cause || key.Name == "Cause", remedy || key.Name == "Remedy"
			}
		}
	}
	return cause, remedy
}
