package text

import (
	"slices"
	"testing"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil}, {"  \n ", nil}, {"one", []string{"one"}}, {"a b", []string{"a b"}}, {"one two  three", []string{"one", "two", "three"}},
		{"ab cd e", []string{"ab cd", "e"}}, {"a longest b", []string{"a", "longest", "b"}}, {"a\nb", []string{"a b"}},
	} {
		if got := Wrap(c.text, 5); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// A command stays on one line, because people paste it into a shell.
func TestWrapKeepsCommandsOnOneLine(t *testing.T) {
	for text, want := range map[string][]string{
		"run `log  repair --dir x`, then go": {"run", "`log  repair --dir x`,", "then", "go"},
		"`a b` `c d` e":                      {"`a b`", "`c d`", "e"},
		"it`s a b":                           {"it`s", "a b"},
		"`a b":                               {"`a b"},
		"x `":                                {"x `"},
	} {
		if got := Wrap(text, 5); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
