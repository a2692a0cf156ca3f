package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// secretField matches the names of fields that hold a secret, but not of those that name its file;
// secretTypes are the types that print it.
var (
	secretField = regexp.MustCompile(`(?i)(password|passphrase|secret|token)s?$`)
	secretTypes = map[string]bool{"string": true, "[]byte": true, "[]string": true, "[][]byte": true}
)

// A secret in a field of type string gets into a log line, a message or a panic with its struct. A
// field for one has the type secret.Secret, which shows itself as [hidden].
func TestNoFieldShowsASecret(t *testing.T) {
	fields := 0
	for path, file := range goFiles(t, func(path string) bool { return !strings.HasSuffix(path, "_test.go") }) {
		if ast.IsGenerated(file.syntax) {
			continue
		}
		shown, seen := shownSecrets(file.syntax)
		fields += seen
		for _, name := range shown {
			t.Errorf("%s:%d: the field %s would be printed: give it the type secret.Secret", path, file.set.Position(name.Pos()).Line,
				name.Name)
		}
	}
	if fields < 1000 {
		t.Errorf("only %d fields were found", fields)
	}
}

// shownSecrets returns the fields of file's structs that show a secret, and the number of all.
func shownSecrets(file *ast.File) (shown []*ast.Ident, fields int) {
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.StructType)
		if !ok {
			return true
		}
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				fields++
				if secretTypes[typeText(f.Type)] && secretField.MatchString(name.Name) {
					shown = append(shown, name)
				}
			}
		}
		return true
	})
	return shown, fields
}

// typeText returns how a type is written, without a star, if it is a name or a slice of one.
func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeText(e.X)
	case *ast.ArrayType:
		if e.Len == nil {
			return "[]" + typeText(e.Elt)
		}
	}
	return ""
}

func TestAShownSecretIsFound(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
type T struct {
	a, Password string
	oauthToken *string
	clusterSecret []byte
	TokenFile, passwordFile string
	secret secret.Secret
	token uint64
	in struct{ Secret string }
}`, 0)
	must.OK(t, err)
	var got []string
	shown, _ := shownSecrets(file)
	for _, name := range shown {
		got = append(got, name.Name)
	}
	if strings.Join(got, " ") != "Password oauthToken clusterSecret Secret" {
		t.Errorf("got %q", got)
	}
}
