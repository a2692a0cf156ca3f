package metadata

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// docs/formats.md has each feature level of the metadata, with what the comment of its constant
// says. The constants have all levels from 2 on, in order.
func TestDocsOfLevels(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "model.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	must.OK(t, err)
	table, next := "| level | what it permits |\n|---|---|\n", int32(2)
	for _, decl := range f.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST || len(g.Specs) != 1 {
			continue
		}
		spec := g.Specs[0].(*ast.ValueSpec)
		name := spec.Names[0].Name
		value, ok := spec.Values[0].(*ast.BasicLit)
		text, says := strings.CutPrefix(strings.Join(strings.Fields(g.Doc.Text()), " "), name+" is the feature level from which on ")
		if !strings.HasSuffix(name, "Level") || !ok {
			continue
		}
		if !says || value.Value != fmt.Sprint(next) {
			t.Errorf("%s = %s, want level %d and the comment %q", name, value.Value, next, name+" is the feature level from which on …")
		}
		table += fmt.Sprintf("| %d | %s |\n", next, strings.ToUpper(text[:1])+text[1:])
		next++
	}
	if next != MaxFeatureLevel+1 {
		t.Errorf("there are levels up to %d, and MaxFeatureLevel is %d", next-1, MaxFeatureLevel)
	}
	golden.Part(t, "../../docs/formats.md", "levels", table, "go test ./internal/metadata -run Docs")
}
