// Package output prints answers: as a table for people, as JSON or YAML for programs, records as
// lines of JSON, and progress bars.
//
// JSON and YAML have the same names and values in the same order. Control characters in a name
// cannot break a table. The package does not know the meaning of what it prints.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Format is how an answer is shown.
type Format string

// The formats.
const (
	Text Format = "table"
	Wide Format = "wide" // a table with more columns
	JSON Format = "json"
	YAML Format = "yaml"
)

// ForPeople says whether the format is a table.
func (f Format) ForPeople() bool { return f != JSON && f != YAML }

// Table is rows below a heading.
type Table struct {
	// Title stands above the table; empty for none.
	Title string
	// Columns are the heads. One that begins with "+" is shown with -o wide only,
	// one that ends with "#" is aligned to the right. Without columns the title is
	// all there is.
	Columns []string
	Rows    [][]string
	// Empty stands instead of a table without rows; empty prints the heads.
	Empty string
}

// Add appends a row; each cell is printed by fmt.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.Rows = append(t.Rows, row)
}

// Print shows v as JSON or YAML, or the tables to people.
func Print(w io.Writer, f Format, v any, tables ...*Table) error {
	switch f {
	case JSON:
		return printJSON(w, v)
	case YAML:
		return printYAML(w, v)
	}
	var b bytes.Buffer
	for i, t := range tables {
		if i > 0 {
			b.WriteByte('\n')
		}
		t.write(&b, f == Wide)
	}
	return write(w, b.Bytes())
}

func write(w io.Writer, p []byte) error {
	if _, err := w.Write(p); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	return write(w, b.Bytes())
}

// printYAML goes through JSON, which YAML contains, so that names, order and
// values are the same.
func printYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	block(&n)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&n); err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	return write(w, b.Bytes())
}

// block takes JSON's braces and quotes out of a document. What is text stays
// text: the encoder quotes what would read as something else.
func block(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode && len(n.Content) == 0 {
		return // {} and [] are the only way to write them
	}
	n.Style = 0
	for _, c := range n.Content {
		block(c)
	}
}

// write renders the table with two blanks between columns.
func (t *Table) write(b *bytes.Buffer, wide bool) {
	if t.Title != "" {
		b.WriteString(t.Title + "\n")
	}
	if len(t.Rows) == 0 && t.Empty != "" {
		b.WriteString(t.Empty + "\n")
		return
	}
	if len(t.Columns) == 0 {
		return
	}
	var heads []string
	var right []bool
	var shown []int
	for i, c := range t.Columns {
		name, extra := strings.CutPrefix(c, "+")
		if extra && !wide {
			continue
		}
		name, number := strings.CutSuffix(name, "#")
		heads, right, shown = append(heads, name), append(right, number), append(shown, i)
	}
	lines := [][]string{heads}
	for _, row := range t.Rows {
		var line []string
		for _, i := range shown {
			line = append(line, cell(row[i]))
		}
		lines = append(lines, line)
	}
	align(b, lines, right)
}

func align(b *bytes.Buffer, lines [][]string, right []bool) {
	widths := make([]int, len(right))
	for _, line := range lines {
		for i, c := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, line := range lines {
		var out strings.Builder
		for i, c := range line {
			if i > 0 {
				out.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if right[i] {
				out.WriteString(pad + c)
			} else {
				out.WriteString(c + pad)
			}
		}
		b.WriteString(strings.TrimRight(out.String(), " ") + "\n")
	}
}

// cell is a text that stays in its line: control characters, which a client may
// have put into its id, are shown as escapes. Nothing at all is a dash.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return Plain(s)
}

// Plain shows control characters as escapes, so that a text stays in its line and changes
// nothing else on a terminal.
func Plain(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
