package lint

import (
	"go/ast"
	"strings"
	"testing"
)

// The versions and session tickets of TLS are decided in one place, for servers and clients.
func TestOnePlaceMakesConfigurationsOfTLS(t *testing.T) {
	made := 0
	for path, file := range goFiles(t, func(path string) bool {
		return !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "/scripts/") // those are clients
	}) {
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if name, ok := literal.Type.(*ast.SelectorExpr); !ok || name.Sel.Name != "Config" {
				return true
			} else if of, ok := name.X.(*ast.Ident); !ok || of.Name != "tls" {
				return true
			}
			made++
			if !strings.HasPrefix(path, "internal/security/certs/") {
				t.Errorf("%s:%d: change what certs.Base returns instead of a new tls.Config", path, file.set.Position(n.Pos()).Line)
			}
			return true
		})
	}
	if made != 1 {
		t.Errorf("%d configurations of TLS are made, want that of certs.Base", made)
	}
}
