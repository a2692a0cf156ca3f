package lint

import (
	"fmt"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

var (
	docHeading = regexp.MustCompile(`^// # \S`)
	// flatItem is a list item that go doc would print as part of a paragraph: items are indented.
	flatItem = regexp.MustCompile(`^// ([-*•+]|\d+[.)]) `)
)

// brokenBlocks returns the lines of a comment that go doc prints as part of a paragraph although
// they are meant as a heading or a list item. gofmt does not change them.
func brokenBlocks(lines []string) (broken []string) {
	empty := func(i int) bool { return i < 0 || i >= len(lines) || strings.TrimSpace(lines[i]) == "//" }
	for i, line := range lines {
		switch {
		case docHeading.MatchString(line) && !(empty(i-1) && empty(i+1)):
			broken = append(broken, fmt.Sprintf("%q is no heading without an empty // line before and after it", line))
		case flatItem.MatchString(line) && (empty(i-1) || flatItem.MatchString(lines[i-1])):
			broken = append(broken, fmt.Sprintf("%q is no list item: indent it, as in \"//   - item\"", line))
		}
	}
	return broken
}

// blocks returns the broken blocks of a file, each with its line.
func (f goFile) blocks() (broken []string) {
	for _, group := range f.syntax.Comments {
		var lines []string
		for _, c := range group.List {
			lines = append(lines, c.Text)
		}
		for _, b := range brokenBlocks(lines) {
			broken = append(broken, fmt.Sprintf("%d: %s", f.set.Position(group.Pos()).Line, b))
		}
	}
	return broken
}

// TestCommentsKeepTheirBlocks checks that headings and lists in comments are printed as such.
func TestCommentsKeepTheirBlocks(t *testing.T) {
	for path, file := range goFiles(t, func(string) bool { return true }) {
		for _, b := range file.blocks() {
			t.Errorf("%s:%s", path, b)
		}
	}
}

func TestABrokenBlockIsFound(t *testing.T) {
	for text, want := range map[string]int{
		"// a text\n//\n// # Heading\n//\n// more":         0,
		"// # Heading\n//\n// more":                        0,
		"// a text\n// # Heading\n//\n// more":             1,
		"// a text\n//\n// # Heading\n// more":             1,
		"// a text\n//   - an item\n//   - another one":    0,
		"// a text\n//\n// - an item\n// - another one":    2,
		"// a text: 3\n// - 2 is 1, and item #1\n// #1234": 0,
	} {
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, "x.go", text+"\npackage x\n", parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if got := (goFile{set, syntax}).blocks(); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
}
