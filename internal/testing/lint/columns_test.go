package lint

import (
	"go/scanner"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxTextColumns = 100 // lines that hold only a comment, and lines of pages
	maxCodeColumns = 140
	tabColumns     = 4
	literalColumns = 80
)

// columns returns the width of a line in columns.
func columns(line string) int {
	width := 0
	for _, r := range line {
		if r == '\t' {
			width += tabColumns - width%tabColumns
		} else {
			width++
		}
	}
	return width
}

// wideLine is a line with more columns than its kind may have.
type wideLine struct{ number, columns, limit int }

// longLiteral matches a string literal that counts as literalColumns only: a message stays in one
// piece, so that a search for it finds it.
var longLiteral = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.){78,}\"|`[^`]{78,}`")

// wideInGo returns the lines of a Go file that are too wide. Directives, addresses, the lines of
// multi-line raw strings and the output of examples may have any width.
func wideInGo(text string) (wide []wideLine) {
	raw := rawLines(text)
	number, output := 0, false
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		limit := maxCodeColumns
		comment, isComment := strings.CutPrefix(strings.TrimSpace(line), "//")
		if isComment {
			limit = maxTextColumns
		} else {
			line = longLiteral.ReplaceAllString(line, strings.Repeat("x", literalColumns))
		}
		if output = isComment && (output || strings.TrimSpace(comment) == "Output:"); output {
			continue
		}
		directive := isComment && comment != "" && comment[0] != ' '
		if n := columns(line); n > limit && !raw[number] && !directive && !strings.Contains(line, "://") {
			wide = append(wide, wideLine{number, n, limit})
		}
	}
	return wide
}

// rawLines returns the numbers of the lines that a raw string of several lines covers.
func rawLines(text string) map[int]bool {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, 0)
	lines := make(map[int]bool)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.STRING && strings.Contains(literal, "\n") {
			first := file.Line(pos)
			for i := range strings.Count(literal, "\n") + 1 {
				lines[first+i] = true
			}
		}
	}
}

var linkTarget = regexp.MustCompile(`\]\([^)]*\)`)

// wideInPage returns the lines of a page that are too wide. Tables, code, HTML and generated parts
// may have any width, and the target of a link does not count.
func wideInPage(text string) (wide []wideLine) {
	fenced, generated := false, false
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
		case strings.HasPrefix(trimmed, "<!--") && strings.Contains(trimmed, "begin"):
			generated = true
		case strings.HasPrefix(trimmed, "<!--") && strings.Contains(trimmed, "end"):
			generated = false
		}
		free := fenced || generated || strings.HasPrefix(line, "    ") || strings.HasPrefix(trimmed, "|") ||
			strings.HasPrefix(trimmed, "<") ||
			regexp.MustCompile(`^\[[^\]]+\]: `).MatchString(trimmed)
		if n := utf8.RuneCountInString(linkTarget.ReplaceAllString(line, "]()")); n > maxTextColumns && !free {
			wide = append(wide, wideLine{number, n, maxTextColumns})
		}
	}
	return wide
}

func TestLinesFitOnAScreen(t *testing.T) {
	check := func(ext string, find func(text string) []wideLine) {
		walk(t, ext, func(path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, w := range find(string(text)) {
				t.Errorf("%s:%d has %d columns, more than %d", strings.TrimPrefix(path, "../../../"), w.number, w.columns, w.limit)
			}
			return nil
		})
	}
	check(".go", wideInGo)
	check(".md", wideInPage)
}

func TestAWideLineIsFound(t *testing.T) {
	long := strings.Repeat("word ", 30)
	text := "package x\n\n// " + long + "\n//go:generate " + long + "\n// https://example.com " + long +
		"\n\t// short\nconst a = `" + long + "\n" + long + "`\nvar b = f(" + strings.Repeat("1, ", 60) + ")\n\tkey: \"" + long + "\",\n"
	got := wideInGo(text)
	if len(got) != 2 || got[0].number != 3 || got[0].limit != maxTextColumns || got[1].number != 9 || got[1].limit != maxCodeColumns {
		t.Errorf("wide lines of a Go file: %+v, want lines 3 and 9", got)
	}
	page := long + "\n\n| " + long + "|\n\n```\n" + long + "\n```\n\n    " + long + "\n[name](https://example.com/" + strings.Repeat(
		"x",
		100,
	) + ")\n- " + long + "\n"
	got = wideInPage(page)
	if len(got) != 2 || got[0].number != 1 || got[1].number != 11 {
		t.Errorf("wide lines of a page: %+v, want lines 1 and 11", got)
	}
	if n := columns("a\tb"); n != 5 {
		t.Errorf("a tab after one column: %d columns, want 5", n)
	}
}
