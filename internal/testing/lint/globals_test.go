package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// Two brokers may run in one process (pkg/chronik). A variable of a package that one of them sets
// is shared by both. So such variables have one value from their declaration on, except these.
var mutable = map[string]string{
	"internal/record.sharedBudget": "the memory to which batches inflate is a part of the memory limit, which a process has once",
}

// changing are the methods of sync and of sync/atomic that change a value. Those of a sync.Pool are
// not among them: what it keeps has no meaning.
var changing = []string{"Store", "Swap", "CompareAndSwap", "Add", "And", "Or", "Lock", "RLock", "Delete", "LoadOrStore", "Do"}

// global is a variable of a package.
type global struct {
	name     string // with the package's path: internal/record.places
	exported bool
	at       string
}

// globalsOf returns the package-level variables of files, by package path and name.
func globalsOf(files map[string]goFile) map[string]global {
	all := map[string]global{}
	for name, f := range files {
		for _, d := range f.syntax.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.VAR {
				continue
			}
			for _, s := range decl.Specs {
				for _, id := range s.(*ast.ValueSpec).Names {
					if id.Name != "_" {
						g := global{path.Dir(name) + "." + id.Name, id.IsExported(), f.at(name, id)}
						all[g.name] = g
					}
				}
			}
		}
	}
	return all
}

func (f goFile) at(name string, n ast.Node) string {
	return fmt.Sprintf("%s:%d", name, f.set.Position(n.Pos()).Line)
}

// changes returns where functions of files change package-level variables of files, by variable.
func changes(files map[string]goFile) map[string][]string {
	known, found := globalsOf(files), map[string][]string{}
	for name, f := range files {
		imported := map[string]string{} // paths from the root, by what the file calls them
		for _, i := range f.syntax.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			own, ok := strings.CutPrefix(p, module+"/")
			if !ok {
				continue
			}
			as := path.Base(own)
			if i.Name != nil {
				as = i.Name.Name
			}
			imported[as] = own
		}
		top := func(id *ast.Ident) bool { return id.Obj == f.syntax.Scope.Objects[id.Name] }
		note := func(e ast.Expr) {
			if g := known[named(e, path.Dir(name), imported, top)]; g.name != "" {
				found[g.name] = append(found[g.name], f.at(name, e))
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec: // a pointer that is made at the first call is a variable that all share
				for i, v := range n.Values {
					if top(n.Names[i]) && onceForAll(v) {
						note(n.Names[i])
					}
				}
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						note(e)
					}
				}
			case *ast.IncDecStmt:
				note(n.X)
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(changing, sel.Sel.Name) {
					note(sel.X)
				}
			}
			return true
		})
	}
	return found
}

// onceForAll reports whether an expression is a sync.OnceValue of a pointer.
func onceForAll(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "OnceValue" && sel.Sel.Name != "OnceValues" {
		return false
	}
	f, ok := call.Args[0].(*ast.FuncLit)
	if !ok || len(f.Type.Results.List) == 0 {
		return false
	}
	_, pointer := f.Type.Results.List[0].Type.(*ast.StarExpr)
	return pointer
}

// named returns the package-level variable that an expression is, or is a part of, or "".
func named(e ast.Expr, in string, imported map[string]string, top func(*ast.Ident) bool) string {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SelectorExpr:
			if id, ok := x.X.(*ast.Ident); ok && id.Obj == nil && imported[id.Name] != "" {
				return imported[id.Name] + "." + x.Sel.Name
			}
			e = x.X
		case *ast.Ident:
			if x.Obj == nil || top(x) { // of another file of the package, or of this one
				return in + "." + x.Name
			}
			return ""
		default:
			return ""
		}
	}
}

// globalFaults returns the variables that files change, and those that other packages could assign.
func globalFaults(files map[string]goFile, allowed map[string]string) (faults []string) {
	changed := changes(files)
	for name, g := range globalsOf(files) {
		places := changed[name]
		slices.Sort(places)
		switch why := allowed[name]; {
		case len(places) > 0 && why == "":
			faults = append(faults, fmt.Sprintf("%s changes %s, which all brokers of the process share: pass it instead", places[0], name))
		case len(places) == 0 && why == "" && g.exported && !strings.Contains(name, ".Err"): // errors are variables everywhere
			faults = append(faults, fmt.Sprintf("%s: any package can assign %s: make it a constant or a function", g.at, name))
		}
	}
	for name := range allowed {
		if len(changed[name]) == 0 {
			faults = append(faults, "nothing changes "+name+", which the table allows")
		}
	}
	slices.Sort(faults)
	return faults
}

func TestNoVariableOfAPackageChanges(t *testing.T) {
	files := map[string]goFile{}
	walk(t, ".go", func(file string) error {
		name := strings.TrimPrefix(file, "../../../")
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "/breakrules/on.go") || // of tests
			strings.HasPrefix(name, "internal/testing/") || strings.HasPrefix(name, "scripts/") {
			return nil
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, file, nil, 0)
		files[name] = goFile{set, syntax}
		return err
	})
	if n := len(globalsOf(files)); n < 100 {
		t.Errorf("only %d variables were found", n)
	}
	for _, f := range globalFaults(files, mutable) {
		t.Error(f)
	}
}

func TestAChangedVariableIsFound(t *testing.T) {
	const declares = `package a
		import "sync/atomic"
		var count, limit int
		var places atomic.Pointer[int]
		var names = map[string]int{}
		var Open = []int{1}
		var ErrFull, fixed = 1, 2
		var linux = sync.OnceValue(func() bool { return true })
		func f(limit int) { limit++; fixed := 3; fixed = 4; _ = fixed }`
	for what, c := range map[string]struct{ text, want string }{
		"nothing":           {"package a\nfunc g() int { return count + limit }", ""},
		"an assignment":     {"package a\nfunc g() { count = 1 }", "changes internal/a.count"},
		"an increment":      {"package a\nfunc g() { count++ }", "changes internal/a.count"},
		"an element":        {"package a\nfunc g() { names[`x`] = 1 }", "changes internal/a.names"},
		"a call":            {"package a\nfunc g() { places.Store(nil) }", "changes internal/a.places"},
		"what is made once": {"package a\nvar shared = sync.OnceValue(func() *int { return new(int) })", "changes internal/a.shared"},
		"another package":   {"package b\nimport \"" + module + "/internal/a\"\nfunc g() { a.Open[0] = 1 }", "changes internal/a.Open"},
	} {
		files := map[string]goFile{}
		for name, text := range map[string]string{"internal/a/a.go": declares, "internal/" + c.text[8:9] + "/more.go": c.text} {
			set := token.NewFileSet()
			syntax, err := parser.ParseFile(set, name, text, 0)
			must.OK(t, err)
			files[name] = goFile{set, syntax}
		}
		got := globalFaults(files, map[string]string{"internal/a.gone": "why"})
		for _, always := range []string{"nothing changes internal/a.gone", "any package can assign internal/a.Open"} {
			n := len(got)
			got = slices.DeleteFunc(got, func(f string) bool { return strings.Contains(f, always) })
			if len(got) == n && !strings.HasSuffix(c.want, "a.Open") {
				t.Errorf("%s: %q was not found", what, always)
			}
		}
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
