// Package output prints the answers of commands: as a table for people, as names, JSON, parts of it
// or YAML for programs, records as lines of JSON, and progress bars.
//
// JSON and YAML have the same names and values in the same order. Control characters in a name
// cannot break a table. The package does not know the meaning of what it prints.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/chronik-io/chronik/internal/text"
)

// Format is an output format.
type Format string

// The formats.
const (
	Text Format = "table"
	Wide Format = "wide" // a table with more columns
	JSON Format = "json"
	YAML Format = "yaml"
	Name Format = "name" // the names in a list, one a line
)

// ForPeople reports whether the format is a table.
func (f Format) ForPeople() bool { return f != JSON && f != YAML && !f.isPath() }

// Table is a table with a heading.
type Table struct {
	// Title is printed above the table, if not empty.
	Title string
	// Columns are the column heads. A prefix "+" shows the column with -o wide only, a suffix "#"
	// aligns it to the right. Without columns only the title is printed.
	Columns []string
	Rows    [][]string
	// Empty is printed instead of a table without rows; if it is empty, the heads are.
	Empty string
}

// Add appends a row and formats each cell with fmt.Sprint.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.Rows = append(t.Rows, row)
}

// Print prints v as JSON or YAML, or the tables for people.
func Print(w io.Writer, f Format, v any, tables ...*Table) error {
	switch f {
	case JSON:
		return printJSON(w, v)
	case YAML:
		return printYAML(w, v)
	case Name:
		return printNames(w, tables)
	}
	if f.isPath() {
		return printPath(w, f, v)
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

// printNames prints the column NAME of a list, or else its first, each name once.
func printNames(w io.Writer, tables []*Table) error {
	if len(tables) != 1 || len(tables[0].Columns) == 0 || len(tables[0].Rows) > 0 && tables[0].Title != "" {
		return errors.New("-o name: this answer is not one list; -o json has all of it")
	}
	t := tables[0]
	column := max(0, slices.Index(t.Columns, "NAME"))
	var b bytes.Buffer
	last := ""
	for _, row := range t.Rows {
		if name := text.Plain(row[column]); name != last {
			b.WriteString(name + "\n")
			last = name
		}
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

// printYAML converts JSON, which is valid YAML, so that names, order and values are the same.
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

// block removes JSON's braces and quotes. Texts stay texts: the encoder quotes what would read as
// something else.
func block(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode && len(n.Content) == 0 {
		return // {} and [] have no other form
	}
	n.Style = 0
	for _, c := range n.Content {
		block(c)
	}
}

// write renders the table with two spaces between columns.
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

// cell returns a text without control characters, or a dash for an empty one.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return text.Plain(s)
}
