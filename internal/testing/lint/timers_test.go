package lint

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// loose returns the lines that start a timer with time.AfterFunc, keep no handle, and have no
// comment on that line, or ending on the one before, that says what it does after Close.
func (f goFile) loose() (lines []int) {
	says := map[int]bool{} // lines for which a comment speaks
	for _, group := range f.syntax.Comments {
		if strings.Contains(group.Text(), "fter Close") {
			from, to := f.set.Position(group.Pos()).Line, f.set.Position(group.End()).Line
			for l := from; l <= to+1; l++ {
				says[l] = true
			}
		}
	}
	drop := func(x ast.Expr) {
		call, ok := x.(*ast.CallExpr)
		if !ok {
			return
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "AfterFunc" {
			return
		}
		line := f.set.Position(call.Pos()).Line
		if of, ok := s.X.(*ast.Ident); ok && of.Name == "time" && !says[line] {
			lines = append(lines, line)
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ExprStmt:
			drop(n.X)
		case *ast.AssignStmt:
			for i, x := range n.Rhs {
				if to, ok := n.Lhs[i].(*ast.Ident); ok && to.Name == "_" {
					drop(x)
				}
			}
		}
		return true
	})
	return lines
}

// TestTimersThatNothingStopsAreHarmless checks that code that drops the handle of a timer says what
// happens if it fires when its component is closed.
func TestTimersThatNothingStopsAreHarmless(t *testing.T) {
	files := goFiles(t, func(path string) bool { return !strings.HasSuffix(path, "_test.go") })
	for path, f := range files {
		for _, line := range f.loose() {
			t.Errorf("%s:%d: nothing can stop this timer: keep its handle for Close, or say in a comment right above what it does after Close",
				path, line)
		}
	}
}

func TestALooseTimerIsFound(t *testing.T) {
	for name, f := range parsed(t, map[string]string{
		"3":  "package a\nfunc f() {\n\ttime.AfterFunc(0, f)\n}\n",
		"4":  "package a\nfunc f() {\n\t// It fires soon.\n\ttime.AfterFunc(0, f)\n}\n",
		"5":  "package a\nfunc f() {\n\t_ = 1 // After Close, f does nothing.\n\tf()\n\ttime.AfterFunc(0, f)\n}\n",
		"2":  "package a\nfunc f() { _ = time.AfterFunc(0, f) }\n",
		"":   "package a\nfunc f() {\n\t// After Close, f does nothing.\n\ttime.AfterFunc(0, f)\n}\n",
		"-1": "package a\nfunc f() {\n\ttime.AfterFunc(0, f) // after Close, once more at most\n}\n",
		"-2": "package a\nfunc f() {\n\tt := time.AfterFunc(0, f)\n\tt.Stop()\n}\n",
		"-3": "package a\nfunc f() {\n\ta.timer, b = time.AfterFunc(0, f), 1\n\tdefer time.AfterFunc(0, f).Stop()\n}\n",
		"-4": "package a\nfunc f() {\n\tcontext.AfterFunc(ctx, f)\n}\n",
	}) {
		want := "[" + name + "]"
		if name == "" || name[0] == '-' {
			want = "[]"
		}
		if got := fmt.Sprint(f.loose()); got != want {
			t.Errorf("%s: lines %s", name, got)
		}
	}
}
