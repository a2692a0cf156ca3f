package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	// maxPathFiles bounds the files that a reader opens between a Produce request and the
	// fdatasync that makes its records durable.
	maxPathFiles = 7
	pathSection  = "\n## The write path\n"
	pathBegin    = "internal/broker/produce.go"
	pathEnd      = "Datasync"
)

// step is a row of the table in docs/architecture.md: functions of one file that call one another.
type step struct {
	file    string
	funcs   []string
	returns bool // another caller begins the next step
}

var pathRow = regexp.MustCompile("(?m)^\\| `([^`]+\\.go)` \\| ([^|]+) \\|")

// steps reads the table of the write path.
func steps(page string) (all []step) {
	_, section, _ := strings.Cut(page, pathSection)
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range pathRow.FindAllStringSubmatch(section, -1) {
		s := step{file: row[1], returns: strings.Contains(row[2], "⏎")}
		for i, name := range strings.Split(row[2], "`") {
			if i%2 == 1 {
				s.funcs = append(s.funcs, name)
			}
		}
		all = append(all, s)
	}
	return all
}

// leads returns for every function of a file the names in its body; methods of the same name count
// as one.
func leads(path string) (map[string]map[string]bool, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	funcs := map[string]map[string]bool{}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		names := funcs[fn.Name.Name]
		if names == nil {
			names = map[string]bool{}
			funcs[fn.Name.Name] = names
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names[id.Name] = true
			}
			return true
		})
	}
	return funcs, nil
}

// pathBreaks returns the places at which the steps do not lead from the first one to the fdatasync.
func pathBreaks(root string, all []step) (wrong []string) {
	if len(all) == 0 || all[0].file != pathBegin {
		return []string{"the table does not begin with " + pathBegin}
	}
	for i, s := range all {
		funcs, err := leads(filepath.Join(root, s.file))
		if err != nil || len(s.funcs) == 0 {
			wrong = append(wrong, fmt.Sprintf("%s, functions %q: %v", s.file, s.funcs, err))
			continue
		}
		next := slices.Clone(s.funcs[1:])
		switch {
		case i == len(all)-1:
			next = append(next, pathEnd)
		case !s.returns && len(all[i+1].funcs) > 0:
			next = append(next, all[i+1].funcs[0])
		}
		for k, name := range s.funcs {
			if funcs[name] == nil {
				wrong = append(wrong, fmt.Sprintf("%s has no function %s", s.file, name))
			} else if k < len(next) && !funcs[name][next[k]] {
				wrong = append(wrong, fmt.Sprintf("%s: %s does not lead to %s", s.file, name, next[k]))
			}
		}
	}
	return wrong
}

// The write path is short, and its page describes it correctly.
func TestWritePathIsAsDescribed(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	all := steps(string(page))
	for _, w := range pathBreaks("../../..", all) {
		t.Error("docs/architecture.md, the write path: " + w)
	}
	var files []string
	for _, s := range all {
		if !slices.Contains(files, s.file) {
			files = append(files, s.file)
		}
	}
	if len(files) > maxPathFiles {
		t.Errorf("%d files lie between a Produce request and the fdatasync, more than %d: %v", len(files), maxPathFiles, files)
	}
}

func TestABreakInThePathIsFound(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, filepath.Dir(pathBegin))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("package broker\n"+text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("produce.go", "func begin() { end() }\nfunc end() {}\n")
	write("file.go", "func sync() { Datasync() }\n")
	table := pathSection +
		"| `internal/broker/produce.go` | `begin` → `end`%s | |\n| `internal/broker/file.go` | `%s` | |\n## Next\n| `x.go` | `x` | |\n"
	for _, c := range []struct {
		mark, last string
		wrong      int
	}{
		{" ⏎", "sync", 0},
		{"", "sync", 1},       // end returns without a call of sync
		{" ⏎", "absent", 1},   // no such function
		{" → `sync`", "x", 3}, // neither end nor sync leads there
	} {
		got := pathBreaks(root, steps(fmt.Sprintf(table, c.mark, c.last)))
		if len(got) != c.wrong {
			t.Errorf("%q, %s: %q", c.mark, c.last, got)
		}
	}
	if got := pathBreaks(root, nil); len(got) != 1 {
		t.Errorf("without a table: %q", got)
	}
}
