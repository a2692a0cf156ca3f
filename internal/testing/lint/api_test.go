package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// foreignTypes are the packages of other modules whose types may be part of what pkg/ exports:
// their authors promise to keep them, as chronik does.
var foreignTypes = map[string]string{
	"github.com/prometheus/client_golang/prometheus": "version 1: a program collects the metrics of several sources through Gatherer",
}

// exported returns the exported declarations of a package in a fixed form, and the types in them
// that a program outside of this module cannot name or that others may change.
func exported(files map[string]goFile) (text string, leaks []string) {
	var decls []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		imports := map[string]string{}
		for _, i := range f.syntax.Imports {
			p, _ := strconv.Unquote(i.Path.Value) // the parser has accepted it
			local := path.Base(p)
			if i.Name != nil {
				local = i.Name.Name
			}
			imports[local] = p
		}
		f.syntax.Comments = nil
		ast.FileExports(f.syntax)
		for _, d := range f.syntax.Decls {
			if !declares(d) {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := s.X.(*ast.Ident)
				if p := imports[nameOf(x, ok)]; p != "" && leaked(p) {
					leaks = append(leaks, fmt.Sprintf("%s exports %s.%s of %s", f.at(name, s), x.Name, s.Sel.Name, p))
				}
				return true
			})
			var out strings.Builder
			style := printer.Config{Mode: printer.UseSpaces | printer.TabIndent, Tabwidth: 8}
			if err := style.Fprint(&out, token.NewFileSet(), d); err != nil {
				leaks = append(leaks, err.Error())
			}
			decls = append(decls, out.String())
		}
	}
	slices.Sort(decls)
	return strings.Join(decls, "\n\n") + "\n", leaks
}

func nameOf(x *ast.Ident, ok bool) string {
	if !ok {
		return ""
	}
	return x.Name
}

// leaked reports whether a program that imports chronik cannot rely on the types of a package.
func leaked(importPath string) bool {
	inside, ours := strings.CutPrefix(importPath, module+"/")
	if ours {
		return !strings.HasPrefix(inside, "pkg/")
	}
	return strings.Contains(strings.Split(importPath, "/")[0], ".") && foreignTypes[importPath] == ""
}

// declares reports whether something exported is left of a declaration, and removes what is no part
// of an API: the bodies of functions, the values of variables, and comments.
func declares(d ast.Decl) bool {
	switch d := d.(type) {
	case *ast.FuncDecl:
		d.Body, d.Doc = nil, nil
		return d.Name.IsExported() && (d.Recv == nil || token.IsExported(receiver(d)))
	case *ast.GenDecl:
		d.Doc = nil
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				s.Doc, s.Comment = nil, nil
				if d.Tok == token.VAR {
					s.Values = nil
				}
			case *ast.TypeSpec:
				s.Doc, s.Comment = nil, nil
				ast.Inspect(s, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.Field:
						n.Doc, n.Comment = nil, nil
					case *ast.StructType:
						n.Incomplete = false // no comment says that fields are left out
					}
					return true
				})
			}
		}
		return d.Tok != token.IMPORT && len(d.Specs) > 0
	}
	return false
}

// receiver returns the name of the type of a method.
func receiver(d *ast.FuncDecl) string {
	at := d.Recv.List[0].Type
	if star, ok := at.(*ast.StarExpr); ok {
		at = star.X
	}
	x, ok := at.(*ast.Ident)
	return nameOf(x, ok)
}

// What packages below pkg/ export is in their api.txt, so that no change of it goes unnoticed: it
// is added to, and never changed, as programs depend on it. It names no type that they cannot name.
func TestExportedNamesAreListed(t *testing.T) {
	byPackage := map[string]map[string]goFile{}
	for name := range goFiles(t, func(p string) bool {
		return strings.HasPrefix(p, "../../../pkg/") && !strings.HasSuffix(p, "_test.go")
	}) {
		f, dir := goFile{set: token.NewFileSet()}, path.Dir(name) // exported removes what no program can name
		var err error
		f.syntax, err = parser.ParseFile(f.set, "../../../"+name, nil, parser.SkipObjectResolution)
		must.OK(t, err)
		if byPackage[dir] == nil {
			byPackage[dir] = map[string]goFile{}
		}
		byPackage[dir][name] = f
	}
	if len(byPackage) < 2 {
		t.Errorf("only %d packages below pkg/", len(byPackage))
	}
	for dir, files := range byPackage {
		text, leaks := exported(files)
		for _, l := range leaks {
			t.Error(l)
		}
		golden.File(t, "../../../"+dir+"/api.txt", text, "go test ./internal/testing/lint -run ExportedNames")
	}
}

func TestAnExportedTypeOfAnotherPackageIsFound(t *testing.T) {
	files := parsed(t, map[string]string{"pkg/a/a.go": `package a

import (
	"context"

	"github.com/chronik-io/chronik/internal/b"
	"github.com/chronik-io/chronik/pkg/d"
	"go.uber.org/zap"
)

// T has a comment.
type T struct {
	X d.D // kept
	y b.B
	Log *zap.Logger
}

func (t *T) F(ctx context.Context) (*b.B, error) { return nil, nil }

func (t *T) g() b.B { return t.y }

var E = b.New()
`})
	text, leaks := exported(files)
	const want = `func (t *T) F(ctx context.Context) (*b.B, error)

type T struct {
	X   d.D
	Log *zap.Logger
}

var E
`
	if text != want {
		t.Errorf("got\n%s", text)
	}
	slices.Sort(leaks)
	got := strings.Join(leaks, "\n")
	if len(leaks) != 2 || !strings.Contains(got, "exports b.B of") || !strings.Contains(got, "exports zap.Logger of") {
		t.Errorf("leaks: %s", got)
	}
}
