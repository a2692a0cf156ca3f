package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// texts are the fields of a health.Finding that are written for people.
var texts = []string{"Subject", "Problem", "Works", "Remedy"}

// decidesByTexts are files that decide something by the text of an error or of a finding, with the
// reasons. Everywhere else a type, a value or a field decides, so that words can change freely.
var decidesByTexts = map[string]string{
	"internal/chronikd/chronikd.go":                "the end of a sentence: a question is not continued",
	"internal/cluster/unreached.go":                "an alert of crypto/tls, whose type has no exported name",
	"internal/cli/seeds/seeds.go":                  "an error of the client library without an exported name",
	"internal/config/resolve/settings.go":          "rewords Kafka's texts, which configdef has for clients",
	"internal/coordinator/sharestate/desk/peer.go": "an error of a broker of an earlier version, which has no code",
	"internal/health/health.go":                    "the constant ThisBroker is not repeated after a broker's name",
	"internal/membership/agent.go":                 "whether the log has this text already",
	"internal/metadata/applier.go":                 "whether the log has this text already",
	"internal/security/certs/failure.go":           "alerts of crypto/tls, whose type has no exported name",
	"internal/security/certs/store.go":             "whether the log has this text already",
	"internal/tools/ctl/cluster/maintain.go":       "whether this text was printed last",
	"internal/login/keys.go":                       "whether the log has this text already",
	"internal/login/scram.go":                      "an error of package scram without an exported name",
	"internal/network/tls.go":                      "errors of crypto/tls without exported names",
	"internal/network/tlsinput.go":                 "errors of crypto/tls without exported names",
	"internal/replica/create.go":                   "whether the log has this text already",
	"internal/replica/upkeep_resign.go":            "whether the log has this text already",
	"internal/tools/bench/reach.go":                "an error of the client library without an exported name",
	"internal/tools/ctl/app/remedies.go":           "errors of the client library without exported names",
	"internal/tools/ctl/output/records.go":         "an error of encoding/json without a type",
	"internal/tools/ctl/records/produce_errors.go": "an error of the client library without an exported name",
}

// searches are the functions of package strings that find out what a text has.
var searches = []string{"Contains", "ContainsAny", "Cut", "CutPrefix", "CutSuffix", "EqualFold",
	"FieldsFunc", "HasPrefix", "HasSuffix", "Index"}

// byTexts returns the lines of a file that compare or search the text of an error or a finding,
// also if a variable has it.
func (f goFile) byTexts() (lines []int) {
	held := map[string]bool{} // variables of the function with such a text
	isText := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.SelectorExpr:
			return slices.Contains(texts, e.Sel.Name)
		case *ast.CallExpr:
			s, ok := e.Fun.(*ast.SelectorExpr)
			return ok && s.Sel.Name == "Error" && len(e.Args) == 0
		case *ast.Ident:
			return held[e.Name]
		}
		return false
	}
	has := func(e ast.Expr) (found bool) {
		ast.Inspect(e, func(n ast.Node) bool {
			x, ok := n.(ast.Expr)
			found = found || ok && isText(x)
			return !found
		})
		return found
	}
	isEmpty := func(e ast.Expr) bool { // "" or nil
		l, ok := e.(*ast.BasicLit)
		v, is := e.(*ast.Ident)
		return ok && l.Value == `""` || is && v.Name == "nil"
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			clear(held)
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if v, ok := to.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && isText(n.Rhs[i]) {
					held[v.Name] = true
				}
			}
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (isText(n.X) && !isEmpty(n.Y) || isText(n.Y) && !isEmpty(n.X)) {
				lines = append(lines, f.set.Position(n.Pos()).Line)
			}
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(searches, s.Sel.Name) {
				break
			}
			if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "strings" && slices.ContainsFunc(n.Args, has) {
				lines = append(lines, f.set.Position(n.Pos()).Line)
			}
		}
		return true
	})
	return lines
}

// TestNothingIsDecidedByTexts checks that no code decides by the words of an error or a finding.
func TestNothingIsDecidedByTexts(t *testing.T) {
	used := map[string]bool{}
	for name, f := range goFiles(t, func(path string) bool {
		return !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "/scripts/") && !strings.Contains(path, "/testing/")
	}) {
		name = strings.TrimPrefix(name, "../../../")
		lines := f.byTexts()
		used[name] = len(lines) > 0
		if decidesByTexts[name] == "" {
			for _, line := range lines {
				t.Errorf("%s:%d decides by words that people read: use a field, a type or errors.Is, or give a reason in decidesByTexts",
					name, line)
			}
		}
	}
	for name := range decidesByTexts {
		if !used[name] {
			t.Errorf("%s decides by no text: remove it from decidesByTexts", name)
		}
	}
}

func TestADecisionByATextIsFound(t *testing.T) {
	for body, want := range map[string]int{
		`return strings.HasPrefix(x.Subject, "partitions ")`:                   1,
		`return strings.Contains(err.Error(), "full")`:                         1,
		`return strings.Contains(text, syscall.ENOSPC.Error())`:                1,
		`text := err.Error(); return strings.Contains(text, "full")`:           1,
		`return slices.Contains(strings.FieldsFunc(x.Problem, apart), name)`:   1,
		`return x.Problem == "it is full"`:                                     1,
		`return x.Problem == ""`:                                               0,
		`return errors.Is(err, full) && strings.Contains(name, "full")`:        0,
		`x.Problem = strings.ReplaceAll(err.Error(), "\n", " "); return false`: 0,
	} {
		if got := parsed(t, map[string]string{"x.go": "package x\nfunc f() bool { " + body + " }\n"})["x.go"].byTexts(); len(got) != want {
			t.Errorf("%s: %v, want %d", body, got, want)
		}
	}
}
