package lint

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// lists returns the items of the numbered lists and paragraphs of CONTRIBUTING.md that name places,
// by their section. Tables have tests of their own.
func lists(page string) map[string][]string {
	_, text, _ := strings.Cut(page, "\n## Lists of places\n")
	text, _, _ = strings.Cut(text, "\n## ")
	all := map[string][]string{}
	for _, section := range strings.Split(text, "\n### ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		var item strings.Builder
		end := func() {
			if item.Len() > 0 {
				all[name] = append(all[name], item.String())
			}
			item.Reset()
		}
		for line := range strings.Lines(body) {
			if !strings.HasPrefix(line, "   ") {
				if first, _, numbered := strings.Cut(line, ". "); numbered && len(first) == 1 || strings.TrimSpace(line) == "" {
					end()
				}
			}
			if !strings.HasPrefix(line, "|") {
				item.WriteString(line)
			}
		}
		end()
	}
	return all
}

var (
	listedCommand = regexp.MustCompile(`^go test \./(\S+) -run (\S+)`)
	listedPath    = regexp.MustCompile(`^[\w.*-]+(/[\w.*-]+)+$`)
	listedFile    = regexp.MustCompile(`^[\w*-]+\.(go|md|py|txtar|golden|txt|yml|sh)$`)
	listedName    = regexp.MustCompile(`^(?:\w+\.)?([A-Za-z]\w*)(?:: true)?(…)?$`)
)

// otherNames are words between backticks that are no names in the tree.
var otherNames = map[string]string{
	"UPDATE": "a variable of make",
}

// missingPlaces returns what the items name and root does not have. A file without a directory is
// in the one that the item names before, or in the root. A name occurs in a file, or in a file of a
// package, that the item or one before it names.
func missingPlaces(root, section string, items []string) (missing []string) {
	wrong := func(format string, args ...any) { missing = append(missing, section+": "+fmt.Sprintf(format, args...)) }
	var read strings.Builder // the places so far
	for _, item := range items {
		var names []string
		dir := ""
		for i, token := range strings.Split(item, "`") {
			token = strings.Join(strings.Fields(token), " ")
			switch m := listedCommand.FindStringSubmatch(token); {
			case i%2 == 0 || strings.Contains(token, "<"):
			case m != nil:
				if tests, _ := filepath.Glob(filepath.Join(root, m[1], "*_test.go")); !hasTest(tests, m[2]) {
					wrong("`%s` runs no test", token)
				}
			case listedPath.MatchString(token):
				if dir = token; path.Ext(token) != "" {
					dir = path.Dir(token)
				}
				if !readPlace(&read, filepath.Join(root, token)) {
					wrong("there is no %s", token)
				}
			case listedFile.MatchString(token):
				if !readPlace(&read, filepath.Join(root, dir, token)) && !readPlace(&read, filepath.Join(root, token)) {
					wrong("there is no %s", path.Join(dir, token))
				}
			case listedName.MatchString(token):
				names = append(names, token)
			}
		}
		for _, token := range names {
			m := listedName.FindStringSubmatch(token)
			pattern := `\b` + m[1] + `\b`
			if m[2] != "" { // it only begins so
				pattern = `\b` + m[1]
			}
			if otherNames[m[1]] == "" && !regexp.MustCompile(pattern).MatchString(read.String()) {
				wrong("no place has %s", token)
			}
		}
	}
	return missing
}

// readPlace adds the text of the files that match a pattern, and of the Go files of directories
// that do. It reports whether there are any.
func readPlace(b *strings.Builder, pattern string) bool {
	found, _ := filepath.Glob(pattern)
	for _, p := range found {
		files := []string{p}
		if in, err := os.Stat(p); err == nil && in.IsDir() {
			files, _ = filepath.Glob(filepath.Join(p, "*.go"))
		}
		for _, file := range files {
			text, _ := os.ReadFile(file)
			b.Write(text)
		}
	}
	return len(found) > 0
}

// hasTest reports whether a test or fuzz test of the files matches -run.
func hasTest(files []string, run string) bool {
	first, _, _ := strings.Cut(run, "/")
	matching, err := regexp.Compile(first)
	for _, f := range files {
		text, _ := os.ReadFile(f)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			if err == nil && matching.MatchString(m[1]) {
				return true
			}
		}
	}
	return false
}

// All places in CONTRIBUTING.md's lists exist.
func TestListsNameWhatExists(t *testing.T) {
	all := lists(pages(t)["CONTRIBUTING.md"])
	if len(all) < 10 {
		t.Errorf("only %d lists were found: does the pattern still match?", len(all))
	}
	for section, items := range all {
		for _, missing := range missingPlaces("../../..", section, items) {
			t.Errorf("CONTRIBUTING.md, %s", missing)
		}
	}
}

func TestAPlaceThatIsMissingIsFound(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"internal/a/a.go": "func every() {}\n", "internal/a/a_test.go": "func TestA() {}\n", "C.md": "x\n",
	} {
		must.OK(t, os.MkdirAll(filepath.Join(root, path.Dir(name)), 0o755))
		must.OK(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	const head = "\n## Lists of places\n\n### One\n\n"
	for item, want := range map[string]string{
		"1. `every` in `internal/a/a.go`, `a_test.go`; `C.md`.\n2. `every`, `every…`\n": "",
		"1. `internal/a`: `every`\n":                     "",
		"1. `internal/a/<b>.go`, with `go test`\n":       "",
		"1. `other` in `internal/a/a.go`\n":              "One: no place has other",
		"1. `internal/b/a.go`\n":                         "One: there is no internal/b/a.go",
		"1. `internal/a/a.go`, `b.go`\n":                 "One: there is no internal/a/b.go",
		"1. `D.md`\n":                                    "One: there is no D.md",
		"1. `x` in `C.md`\n2. `every` in `C.md`\n":       "One: no place has every",
		"1. `go test ./internal/a -run TestA -update`\n": "",
		"1. `go test\n   ./internal/a -run TestB`\n":     "One: `go test ./internal/a -run TestB` runs no test",
		"1. `go test ./internal/b -run TestA`\n":         "One: `go test ./internal/b -run TestA` runs no test",
	} {
		var got []string
		for section, items := range lists(head + item + "\n## Next\n\n1. `internal/c`\n") {
			got = append(got, missingPlaces(root, section, items)...)
		}
		if joined := strings.Join(got, "\n"); joined != want {
			t.Errorf("%s%q, want %q", item, joined, want)
		}
	}
}
