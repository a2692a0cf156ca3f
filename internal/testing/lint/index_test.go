package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// docs/README.md orders the pages by purpose; it links every one of them.
func TestIndexLinksEveryPage(t *testing.T) {
	const index = "docs/README.md"
	all := pages(t)
	for page := range all {
		if filepath.Dir(page) == "docs" && page != index && !strings.Contains(all[index], "("+filepath.Base(page)+")") {
			t.Errorf("%s has no link to %s", index, page)
		}
	}
}

// The table of packages in docs/architecture.md has every package outside scripts, and no other.
// Each row says what the packages own, and what they must not know: only tests and the programs'
// mains may leave that out.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	_, table, _ := strings.Cut(pages(t)["docs/architecture.md"], "\n## Packages\n")
	table, _, _ = strings.Cut(table, "\n## ")
	named := make(map[string]bool)
	for row := range strings.Lines(table) {
		cell, rest, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		checkCells(t, row, strings.Split(rest, "|"))
		for i, name := range strings.Split(cell, "`") {
			if i%2 == 1 {
				named[name] = true
			}
		}
	}
	all, err := listed()
	must.OK(t, err)
	known := make(map[string]bool)
	for _, p := range all {
		name, base := p.name(), filepath.Base(p.name())
		known[name], known[base], known[filepath.Dir(name)+"/..."] = true, true, true
		if !strings.HasPrefix(name, "scripts/") && !named[name] && !named[base] {
			t.Errorf("docs/architecture.md has no row for %s", name)
		}
	}
	for name := range named {
		if !known[name] {
			t.Errorf("docs/architecture.md names the package %s, which does not exist", name)
		}
	}
}

// checkCells checks a row of the table of packages. cells follow the packages' names.
func checkCells(t *testing.T, row string, cells []string) {
	t.Helper()
	if !strings.HasPrefix(row, "| ") {
		return
	}
	whole := len(cells) == 3 // the last is the end of the line
	for i, cell := range cells[:len(cells)-1] {
		cell = strings.TrimSpace(cell)
		outside := strings.HasPrefix(row, "| `internal/testing/") || strings.HasPrefix(row, "| `cmd/")
		whole = whole && cell != "" && (cell != "–" || i == 1 && outside)
	}
	if !whole {
		t.Errorf("docs/architecture.md: a row lacks what the packages own or must not know: %s", row)
	}
}

// The messages in the first table of docs/operations.md exist in the code or in golden files. A …
// stands for varying text.
func TestMessagesOfOperationsExist(t *testing.T) {
	_, table, _ := strings.Cut(pages(t)["docs/operations.md"], "\n| what you see |")
	table, _, _ = strings.Cut(table, "\n\n")
	corpus := sources(t)
	quoted := 0
	for row := range strings.Lines(table) {
		seen, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		if !strings.HasPrefix(seen, "`") {
			continue
		}
		quoted++
		for part := range strings.SplitSeq(strings.Trim(seen, "`"), "…") {
			if part = strings.Trim(part, " :"); !strings.Contains(corpus, part) {
				t.Errorf("docs/operations.md quotes %q, which no source contains", part)
			}
		}
	}
	if quoted < 7 {
		t.Errorf("only %d quotes were found: does the pattern still match?", quoted)
	}
}

// Files and directories of this tree that the pages name exist.
func TestPathsInPagesExist(t *testing.T) {
	path := regexp.MustCompile("`((?:cmd|deploy|docs|internal|pkg|scripts)/[\\w./-]*\\w)`")
	found := 0
	for page, text := range pages(t) {
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			found++
			if _, err := os.Stat("../../../" + m[1]); err != nil {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d paths were found: does the pattern still match?", found)
	}
}

// The figures in README.md are those of docs/performance.md, and its commands are rows of the
// benchmark.
func TestReadmeQuotesMeasuredFigures(t *testing.T) {
	all := pages(t)
	row := regexp.MustCompile("(?m)^\\| [^|]+ \\| ([^|]+) \\| ([^|]+) \\| `make bench ROWS=([a-z]+)` \\|$")
	rows := row.FindAllStringSubmatch(all["README.md"], -1)
	for _, r := range rows {
		figures := regexp.QuoteMeta(" | " + r[1] + " | " + r[2] + " | ")
		measured := regexp.MustCompile(`(?m)^\| .*` + figures + ".*`ROWS=" + r[3] + "`")
		if !measured.MatchString(all["docs/performance.md"]) {
			t.Errorf("README.md: docs/performance.md has no row %s with %s and %s", r[3], r[1], r[2])
		}
	}
	if len(rows) != 7 {
		t.Errorf("README.md has %d measured figures, want 7", len(rows))
	}
}

// An identifier that a page places in a file ("`Name` in `file.go`") occurs there.
func TestIdentifiersInPagesExist(t *testing.T) {
	place := regexp.MustCompile("((?:`[\\w.]+`,?\\s+)+)(?:\\([^)]*\\)\\s+)?in\\s+`([\\w/]+\\.go)`")
	found := 0
	for page, text := range pages(t) {
		for _, m := range place.FindAllStringSubmatch(text, -1) {
			code, err := os.ReadFile("../../../" + m[2])
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			for i, name := range strings.Split(m[1], "`") {
				if i%2 == 1 {
					found++
					name = name[strings.LastIndex(name, ".")+1:]
					if !regexp.MustCompile(`\b` + name + `\b`).Match(code) {
						t.Errorf("%s: %s has no %s", page, m[2], name)
					}
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d identifiers were found: does the pattern still match?", found)
	}
}
