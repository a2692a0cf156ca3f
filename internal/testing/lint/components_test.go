package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// start follows the start of a broker: the functions that open calls, in their order, and the
// fields of components that they set and use. Functions that run later, those in closures, are left
// out.
type start struct {
	funcs  map[string]*ast.FuncDecl // with a parameter or a receiver of components, by name
	fields []string
	shared map[string]bool // fields of types of sync/atomic, which may be read before they are set
	set    []string        // the fields that are set so far, in order
	faults []string
}

// isComponents reports whether a type is components, or points to it.
func isComponents(t ast.Expr) bool {
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.Name == "components"
}

// newStart finds the functions and the fields in the files of a package.
func newStart(files map[string]goFile) *start {
	s := &start{funcs: map[string]*ast.FuncDecl{}, shared: map[string]bool{}}
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if componentsOf(d) != "" {
					s.funcs[d.Name.Name] = d
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == "components" {
						s.addFields(t.Type.(*ast.StructType))
					}
				}
			}
		}
	}
	return s
}

func (s *start) addFields(t *ast.StructType) {
	for _, f := range t.Fields.List {
		of := f.Type
		if i, ok := of.(*ast.IndexExpr); ok {
			of = i.X
		}
		sel, ok := of.(*ast.SelectorExpr)
		for _, name := range f.Names {
			s.fields = append(s.fields, name.Name)
			s.shared[name.Name] = ok && fmt.Sprint(sel.X) == "atomic"
		}
	}
}

// componentsOf returns what a function calls the components that it gets, or makes; empty: nothing.
func componentsOf(f *ast.FuncDecl) (name string) {
	for _, list := range []*ast.FieldList{f.Recv, f.Type.Params} {
		if list == nil {
			continue
		}
		for _, p := range list.List {
			if isComponents(p.Type) && len(p.Names) > 0 {
				return p.Names[0].Name
			}
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && made(a.Rhs[0]) != nil {
			name = a.Lhs[0].(*ast.Ident).Name
		}
		return name == ""
	})
	return name
}

// made returns the literal of &components{...}.
func made(e ast.Expr) *ast.CompositeLit {
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
		if c, ok := u.X.(*ast.CompositeLit); ok && isComponents(c.Type) {
			return c
		}
	}
	return nil
}

// follow visits a function. path has the functions that led to it.
func (s *start) follow(name string, path ...string) {
	f := s.funcs[name]
	if f == nil || slices.Contains(path, name) {
		return
	}
	path = append(path, name)
	own := componentsOf(f)
	field := func(n ast.Node) string {
		sel, ok := n.(*ast.SelectorExpr)
		if ok && fmt.Sprint(sel.X) == own && slices.Contains(s.fields, sel.Sel.Name) {
			return sel.Sel.Name
		}
		return ""
	}
	asked := map[string]bool{} // whether it is nil
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.AssignStmt:
			for _, e := range n.Rhs {
				ast.Inspect(e, visit)
			}
			for _, e := range n.Lhs {
				if x := field(e); x != "" {
					s.sets(x)
				} else {
					ast.Inspect(e, visit)
				}
			}
			return false
		case *ast.CompositeLit:
			if isComponents(n.Type) {
				for _, e := range n.Elts {
					s.sets(e.(*ast.KeyValueExpr).Key.(*ast.Ident).Name)
				}
			}
		case *ast.BinaryExpr:
			if id, ok := n.Y.(*ast.Ident); ok && id.Name == "nil" && field(n.X) != "" {
				asked[field(n.X)] = true
			}
		case *ast.SelectorExpr:
			if x := field(n.X); s.shared[x] && n.Sel.Name == "Store" {
				s.sets(x)
				return false
			}
			x := field(n)
			if x != "" && !s.shared[x] && !asked[x] && !slices.Contains(s.set, x) {
				s.faults = append(s.faults, fmt.Sprintf("%s uses %s, which nothing has set before", strings.Join(path, " → "), x))
			}
			if x == "" {
				s.follow(n.Sel.Name, path...)
			}
		}
		return true
	}
	ast.Inspect(f.Body, visit)
}

func (s *start) sets(field string) {
	if !slices.Contains(s.set, field) {
		s.set = append(s.set, field)
	}
}

// end returns all faults, with those of the list of fields.
func (s *start) end() []string {
	if !slices.Equal(s.set, s.fields) {
		s.faults = append(s.faults, fmt.Sprintf("the fields are %v, and the start sets %v: list each where it is set", s.fields, s.set))
	}
	return s.faults
}

// Each step of a start uses only what an earlier one has set, and components lists its fields in
// the order in which they are set.
func TestAStartUsesWhatItHasSet(t *testing.T) {
	s := newStart(goFiles(t, func(p string) bool {
		return path.Dir(p) == "../../../internal/daemon" && !strings.HasSuffix(p, "_test.go")
	}))
	if s.follow("open"); len(s.set) < 20 {
		t.Errorf("only %d fields are set: does open still make components?", len(s.set))
	}
	for _, fault := range s.end() {
		t.Errorf("internal/daemon: %s", fault)
	}
}

func TestAUseBeforeItsStepIsFound(t *testing.T) {
	const text = `package daemon
type components struct {
	conf int
	logs *logs
	server atomic.Pointer[server]
	handlers *handlers
}
func (b *Broker) open() {
	r := &components{conf: 1}
	for _, step := range []func(*components) { b.openLogs, b.openHandlers } { step(r) }
}
func (b *Broker) openLogs(r *components) {
	r.logs = newLogs(r.conf, r.server.Load(), func() { r.handlers.Close() })
	r.limit()
}
func (r *components) limit() { if r.handlers == nil { return }; r.handlers.Limit() }
func (b *Broker) openHandlers(r *components) {
	r.server.Store(newServer())
	r.handlers = newHandlers(r.logs.Of)
}
`
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"b.openLogs, b.openHandlers", "b.openHandlers, b.openLogs", "open → openHandlers uses logs, which nothing has set before"},
		{"if r.handlers == nil { return }; ", "", "open → openLogs → limit uses handlers, which nothing has set before"},
		{"newLogs(r.conf", "newLogs(r.handlers", "open → openLogs uses handlers, which nothing has set before"},
		{"r.server.Store(newServer())\n", "", "the fields are [conf logs server handlers], and the start sets [conf logs handlers]"},
		{"	conf int\n	logs *logs\n", "	logs *logs\n	conf int\n", "the fields are [logs conf server handlers]"},
	} {
		s := newStart(parsed(t, map[string]string{"daemon.go": strings.Replace(text, c.old, c.new, 1)}))
		s.follow("open")
		got := strings.Join(s.end(), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q instead of %q: %q, want %q", c.new, c.old, got, c.want)
		}
	}
}
