package lint

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// silentChannels returns the names of the fields of channel types that have no comment.
func (f goFile) silentChannels() (names []*ast.Ident) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		s, ok := n.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range s.Fields.List {
			if _, ok := field.Type.(*ast.ChanType); ok && field.Doc == nil && field.Comment == nil {
				names = append(names, field.Names...)
			}
		}
		return true
	})
	return names
}

// TestChannelsSayWhoEndsThem checks that every field of a channel type has a comment. It says who
// sends or closes, and the capacity if a sender depends on it.
func TestChannelsSayWhoEndsThem(t *testing.T) {
	for name, f := range goFiles(t, func(path string) bool { return !strings.HasSuffix(path, "_test.go") }) {
		for _, id := range f.silentChannels() {
			t.Errorf("%s: the channel %s has no comment: say who sends to it or closes it", f.at(name, id), id.Name)
		}
	}
}

func TestAChannelWithoutACommentIsFound(t *testing.T) {
	files := parsed(t, map[string]string{"a/a.go": `package a

type t struct {
	said chan int // closed by end
	// closed by end
	above chan int
	one, two chan<- int
	group struct {
		inner <-chan int
	}
	none int
}
`})
	var names []string
	for name, f := range files {
		for _, id := range f.silentChannels() {
			names = append(names, path.Dir(name)+"."+id.Name)
		}
	}
	if got := strings.Join(names, " "); got != "a.one a.two a.inner" {
		t.Errorf("found %q", got)
	}
}
