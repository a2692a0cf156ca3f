package lint

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// unsaid are fields of a channel type that have no comment, by file and name.
var unsaid = map[string]bool{
	"internal/metadata/applier.go: done":          true,
	"internal/metadata/copies/copy.go: ended":     true,
	"internal/metadata/kv/history.go: closed":     true,
	"internal/metadata/raftstore/apply.go: done":  true,
	"internal/metadata/raftstore/store.go: calls": true,
	"internal/metadata/raftstore/store.go: queue": true,
	"internal/replica/rounds.go: done":            true,
	"internal/replica/stream/leader.go: cold":     true,
	"internal/replica/upkeep.go: wake":            true,
}

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
	found := map[string]bool{}
	for name, f := range goFiles(t, func(path string) bool { return !strings.HasSuffix(path, "_test.go") }) {
		for _, id := range f.silentChannels() {
			key := name + ": " + id.Name
			if found[key] = true; !unsaid[key] {
				t.Errorf("%s: the channel %s has no comment: say who sends to it or closes it", f.at(name, id), id.Name)
			}
		}
	}
	for key := range unsaid {
		if !found[key] {
			t.Errorf("%s needs no exception", key)
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
