// Command platforms checks that chronik and its tests compile for other systems:
//
//	go run ./scripts/platforms darwin/arm64 linux/arm64
//
// It reads the sources of all packages, also of the standard library, and checks their types. That
// takes seconds, since no code is generated: a compiler would do all its work once for each system.
// It knows no package by its name.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// maxProblems limits what is printed of one package.
const maxProblems = 10

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: platforms GOOS/GOARCH...")
		os.Exit(2)
	}
	for _, platform := range os.Args[1:] {
		n, err := check(platform)
		if err != nil {
			fmt.Fprintf(os.Stderr, "platforms: %s: %v\n", platform, err)
			os.Exit(1)
		}
		fmt.Printf("%s: %d packages and tests of chronik compile\n", platform, n)
	}
}

// listed is a package as "go list" prints it.
type listed struct {
	ImportPath, Dir   string
	GoFiles, CgoFiles []string
	ImportMap         map[string]string // import paths in the sources that mean another package
	Module            *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// check checks all packages for a platform and returns how many of them are chronik's.
func check(platform string) (int, error) {
	system, arch, ok := strings.Cut(platform, "/")
	sizes := types.SizesFor("gc", arch)
	if !ok || sizes == nil {
		return 0, errors.New("not GOOS/GOARCH, such as linux/arm64")
	}
	list := exec.Command("go", "list", "-deps", "-test",
		"-json=ImportPath,Dir,GoFiles,CgoFiles,ImportMap,Module,Error", "./cmd/...", "./internal/...", "./pkg/...")
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := list.Start(); err != nil {
		return 0, err
	}
	own, c := 0, checker{fset: token.NewFileSet(), done: map[string]*types.Package{"unsafe": types.Unsafe},
		trees: map[string]*ast.File{}, sizes: sizes}
	for in := json.NewDecoder(out); ; { // each package comes after those that it imports
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, fmt.Errorf("go list: %w", err)
		}
		if strings.HasSuffix(p.ImportPath, ".test") || p.ImportPath == "unsafe" {
			continue // go list's own main function of tests
		}
		if err := c.add(&p); err != nil {
			return 0, err
		}
		if p.Module != nil && p.Module.Main {
			own++
		}
	}
	return own, list.Wait()
}

// checker has the packages that were checked, by their names in "go list".
type checker struct {
	fset  *token.FileSet
	done  map[string]*types.Package
	trees map[string]*ast.File // by path: tests contain the files of the package again
	sizes types.Sizes
}

// add checks a package, whose imports were added before.
func (c *checker) add(p *listed) error {
	if p.Error != nil {
		return fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err)
	}
	var problems []error
	own := p.Module != nil && p.Module.Main
	config := types.Config{Sizes: c.sizes, IgnoreFuncBodies: !own, Importer: imports{c.done, p.ImportMap},
		Error: func(err error) { problems = append(problems, err) }}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	var files []*ast.File
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		path := filepath.Join(p.Dir, name)
		if c.trees[path] == nil {
			tree, err := parser.ParseFile(c.fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			c.trees[path] = tree
		}
		files = append(files, c.trees[path])
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")                     // "p [p.test]" is p with its tests
	c.done[p.ImportPath], _ = config.Check(path, c.fset, files, nil) // Error has its errors
	return errors.Join(problems[:min(len(problems), maxProblems)]...)
}

// imports finds the imports of one package.
type imports struct {
	done map[string]*types.Package
	as   map[string]string
}

// Import implements types.Importer.
func (i imports) Import(path string) (*types.Package, error) {
	if other := i.as[path]; other != "" {
		path = other
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("package %s is not there", path)
}
