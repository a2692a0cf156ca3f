package lint

import (
	"go/ast"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// filePlaces are lists of CONTRIBUTING.md that name every file of some directories with a text.
var filePlaces = []struct {
	section string
	dirs    []string // below internal
	text    *regexp.Regexp
	least   int // so many files have the text
}{
	{"An API", []string{"protocol"}, regexp.MustCompile(`\b[vV]ersion [<>]=? \d`), 4},
	{"A format", []string{"storage", "storage/journal", "inspect"},
		regexp.MustCompile(`\bType\b.*\b(Batches|Gap|Skip)\b|\bcase journal\.(Batches|Gap|Skip)\b`), 6},
}

// fieldsAtOnce is how many fields of an Image or Delta a function names, if it names one of each
// kind of key: those of one kind name fewer.
const fieldsAtOnce = 8

// enumerators returns the functions and types of a package that name many fields of its structs
// Image and Delta: a new kind of key also goes there.
func enumerators(files map[string]goFile) (names []string) {
	type declaration struct {
		name string
		is   ast.Node
	}
	fields, declared := map[string]bool{}, []declaration{}
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				declared = append(declared, declaration{d.Name.Name, d})
			case *ast.GenDecl:
				if d.Tok != token.TYPE {
					continue
				}
				t := d.Specs[0].(*ast.TypeSpec)
				declared = append(declared, declaration{t.Name.Name, d})
				if s, ok := t.Type.(*ast.StructType); ok && (t.Name.Name == "Image" || t.Name.Name == "Delta") {
					for _, field := range s.Fields.List {
						for _, n := range field.Names {
							fields[strings.ToLower(n.Name)] = true
						}
					}
				}
			}
		}
	}
	for _, d := range declared {
		seen := map[string]bool{}
		ast.Inspect(d.is, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && fields[strings.ToLower(id.Name)] {
				seen[strings.ToLower(id.Name)] = true
			}
			return true
		})
		if len(seen) >= fieldsAtOnce {
			names = append(names, d.name)
		}
	}
	return names
}

// ordinary reports whether a file below internal is in one of some directories and no test.
func ordinary(file string, dirs ...string) bool {
	return !strings.HasSuffix(file, "_test.go") && slices.Contains(dirs, strings.TrimPrefix(path.Dir(file), "../../../internal/"))
}

// The lists name every place of which code shows that it is one.
func TestListsNameEveryPlace(t *testing.T) {
	all := lists(pages(t)["CONTRIBUTING.md"])
	needs := func(section, name string) {
		if !strings.Contains(strings.Join(all[section], ""), "`"+name+"`") {
			t.Errorf("CONTRIBUTING.md, %s: the list does not name `%s`", section, name)
		}
	}
	for _, c := range filePlaces {
		found := 0
		for _, dir := range c.dirs {
			files, _ := filepath.Glob("../../../internal/" + dir + "/*.go")
			for _, file := range files {
				if b := (strings.Builder{}); ordinary(file, dir) && readPlace(&b, file) && c.text.MatchString(b.String()) {
					found++
					if list := strings.Join(all[c.section], ""); !strings.Contains(list, path.Base(file)+"`") {
						needs(c.section, strings.TrimPrefix(file, "../../../"))
					}
				}
			}
		}
		if found < c.least {
			t.Errorf("%s: only %d files were found: does the pattern still match?", c.section, found)
		}
	}
	kinds := enumerators(goFiles(t, func(file string) bool { return ordinary(file, "metadata") }))
	if len(kinds) < 10 {
		t.Errorf("only %q name many kinds of keys", kinds)
	}
	for _, name := range kinds {
		needs("A key of the metadata", name)
	}
}

func TestAPlaceOfManyKindsIsFound(t *testing.T) {
	got := enumerators(parsed(t, map[string]string{
		"a.go": "package a\ntype Image struct{ a, b, c, d, e, f int }\ntype Delta struct{ G, H int }\n",
		"b.go": "package a\nfunc all() { use(a, b, c, d, e, f, G, H) }\nfunc few() { use(a, b, c, d, e, f, G, G) }\n",
	}))
	if !slices.Equal(got, []string{"all"}) {
		t.Errorf("found %q", got)
	}
}
