package wrap

import (
	"slices"
	"testing"
)

func TestText(t *testing.T) {
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

// What is copied into a shell is one line.
func TestACommandIsNotBroken(t *testing.T) {
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
