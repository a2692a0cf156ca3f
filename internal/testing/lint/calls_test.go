package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// fn is a function or method by its file, as a path from the root, and its name. Methods of one
// file with the same name count as one.
type fn struct{ file, name string }

func (f fn) String() string { return f.file + ": " + f.name }

// mention is a function of the examined packages, and as what another one mentions it: itself, or
// the method of an interface.
type mention struct{ as, to *types.Func }

// calls knows which function mentions which, across packages: in a call, or as a value that another
// function calls later. A method of an interface stands for the methods of all types of the
// examined packages that implement it.
type calls struct {
	fset  *token.FileSet
	info  types.Info
	files []*ast.File
	named []*types.Named       // of the examined packages
	decls map[*types.Func]fn   // of the examined packages
	at    map[fn][]*types.Func // the inverse of decls
	to    map[*types.Func][]mention
	all   map[*types.Func][]string // names of functions of any package
}

func newCalls() *calls {
	return &calls{
		fset: token.NewFileSet(), info: types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}},
		decls: map[*types.Func]fn{}, at: map[fn][]*types.Func{}, to: map[*types.Func][]mention{}, all: map[*types.Func][]string{},
	}
}

// check type-checks a package. Its functions are examined if bodies is set.
func (c *calls) check(path string, files []*ast.File, bodies bool, imports types.Importer) (*types.Package, error) {
	conf := types.Config{Importer: imports, IgnoreFuncBodies: !bodies}
	pkg, err := conf.Check(path, c.fset, files, &c.info)
	if err != nil || !bodies {
		return pkg, err
	}
	c.files = append(c.files, files...)
	for _, name := range pkg.Scope().Names() {
		if obj, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok {
			if n, ok := obj.Type().(*types.Named); ok && n.TypeParams() == nil && !types.IsInterface(n) {
				c.named = append(c.named, n)
			}
		}
	}
	return pkg, nil
}

// examine collects what every function mentions, after all packages were checked.
func (c *calls) examine() {
	var decls []*ast.FuncDecl
	for _, file := range c.files {
		for _, d := range file.Decls {
			if decl, ok := d.(*ast.FuncDecl); ok && decl.Body != nil {
				at := fn{filepath.ToSlash(c.fset.Position(decl.Pos()).Filename), decl.Name.Name}
				f := c.info.Defs[decl.Name].(*types.Func)
				c.decls[f], c.at[at] = at, append(c.at[at], f)
				decls = append(decls, decl)
			}
		}
	}
	for _, decl := range decls {
		from := c.info.Defs[decl.Name].(*types.Func)
		ast.Inspect(decl.Body, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if to, ok := c.info.Uses[id].(*types.Func); ok {
					c.all[from] = append(c.all[from], to.Name())
					for _, m := range c.meant(to.Origin()) {
						c.to[from] = append(c.to[from], mention{to, m})
					}
				}
			}
			return true
		})
	}
}

// meant returns the declared functions that a mentioned one stands for.
func (c *calls) meant(f *types.Func) (all []*types.Func) {
	recv := f.Signature().Recv()
	if recv == nil || !types.IsInterface(recv.Type()) {
		if _, ok := c.decls[f]; ok {
			all = append(all, f)
		}
		return all
	}
	face := recv.Type().Underlying().(*types.Interface)
	for _, n := range c.named {
		if p := types.NewPointer(n); types.Implements(p, face) {
			obj, _, _ := types.LookupFieldOrMethod(p, false, f.Pkg(), f.Name())
			if m, ok := obj.(*types.Func); ok {
				if _, ok := c.decls[m.Origin()]; ok {
					all = append(all, m.Origin())
				}
			}
		}
	}
	return all
}

// isOne reports whether a type, or what it points to or has as elements, is one of some types of
// this module.
func isOne(t types.Type, of []string) bool {
	switch u := types.Unalias(t).(type) {
	case *types.Pointer:
		return isOne(u.Elem(), of)
	case *types.Slice:
		return isOne(u.Elem(), of)
	case *types.Named:
		obj := u.Obj()
		return obj.Pkg() != nil && slices.Contains(of, strings.TrimPrefix(obj.Pkg().Path(), module+"/")+"."+obj.Name())
	}
	return false
}

// source type-checks packages of this module from their sources, and takes all others from the
// compiler's export data.
type source struct {
	c       *calls
	listed  map[string]pkg
	bodies  func(pkg) bool
	checked map[string]*types.Package
	others  types.Importer
}

// Import implements types.Importer.
func (s *source) Import(path string) (*types.Package, error) {
	p, own := s.listed[path]
	if !own {
		return s.others.Import(path)
	}
	if done := s.checked[path]; done != nil {
		return done, nil
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(s.c.fset, p.name()+"/"+name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	done, err := s.c.check(path, files, s.bodies(p), s)
	s.checked[path] = done
	return done, err
}

// callsOf examines the packages of this module that know a carrier: those that declare one, and
// those that import such a package.
func callsOf(all []pkg, carriers []string) (*calls, error) {
	var declare []string
	for _, name := range carriers {
		declare = append(declare, module+"/"+name[:strings.LastIndex(name, ".")])
	}
	knows := func(p pkg) bool {
		return strings.HasPrefix(p.name(), "internal/") && !strings.HasPrefix(p.name(), "internal/testing/") &&
			slices.ContainsFunc(append([]string{p.ImportPath}, p.Imports...), func(i string) bool { return slices.Contains(declare, i) })
	}
	s := &source{c: newCalls(), listed: map[string]pkg{}, bodies: knows, checked: map[string]*types.Package{}}
	for _, p := range all {
		s.listed[p.ImportPath] = p
	}
	var from []string
	for _, p := range all {
		if knows(p) {
			from = append(from, p.ImportPath)
		}
	}
	export, err := exportData(from)
	if err != nil {
		return nil, err
	}
	s.others = importer.ForCompiler(s.c.fset, "gc", func(path string) (io.ReadCloser, error) {
		if export[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(export[path])
	})
	for _, path := range from {
		if _, err := s.Import(path); err != nil {
			return nil, err
		}
	}
	s.c.examine()
	return s.c, nil
}

// exportData returns the files of export data for all packages of other modules below some of this
// one.
func exportData(of []string) (map[string]string, error) {
	args := []string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}} {{.ImportPath}}"}
	out, err := exec.Command("go", append(args, of...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list -deps: %w", err)
	}
	args = []string{"list", "-export", "-f", "{{.ImportPath}} {{.Export}}"}
	for line := range strings.Lines(string(out)) {
		if owner, path, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); owner != module {
			args = append(args, path)
		}
	}
	var stderr bytes.Buffer
	cmd := exec.Command("go", args...)
	cmd.Stderr = &stderr
	if out, err = cmd.Output(); err != nil {
		return nil, fmt.Errorf("go list -export: %w: %s", err, stderr.String())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		files[path] = file
	}
	return files, nil
}
