package metrics

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// section is a heading of names.go and the names under it.
type section struct {
	title string
	names []string
}

func sections(t *testing.T) (list []section) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, parser.ParseComments)
	must.OK(t, err)
	for _, d := range file.Decls {
		for _, spec := range d.(*ast.GenDecl).Specs {
			v := spec.(*ast.ValueSpec)
			if v.Doc != nil {
				list = append(list, section{title: strings.TrimSpace(v.Doc.Text())})
			}
			if len(list) == 0 {
				t.Fatalf("%s has no heading", v.Names[0])
			}
			name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			must.OK(t, err)
			s := &list[len(list)-1]
			s.names = append(s.names, name)
		}
	}
	return list
}

// labelsOf returns the label names of a family, in alphabetical order.
func labelsOf(f *dto.MetricFamily) string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, "`"+l.GetName()+"`")
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// docs/metrics.md lists every metric of a scrape with its meaning and advice.
func TestDocsListEveryMetric(t *testing.T) {
	got, texts := gather(t, everything(t)), advice()
	var b strings.Builder
	for _, s := range sections(t) {
		fmt.Fprintf(&b, "### %s\n\n| metric | type | labels | meaning | when to act, and how |\n|---|---|---|---|---|\n", s.title)
		for _, name := range s.names {
			text, ok := texts[name]
			if !ok {
				t.Errorf("%s has no entry in advice", name)
			}
			delete(texts, name)
			f := got[name]
			if f == nil {
				t.Fatalf("no scrape returns %s", name)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()), labelsOf(f), f.GetHelp(), text)
		}
		b.WriteString("\n")
	}
	for name := range texts {
		t.Errorf("advice has an entry for %s, which is not a metric", name)
	}
	golden.Part(t, "../../docs/metrics.md", "metrics", b.String(), "go test ./internal/metrics -run Docs")
}
