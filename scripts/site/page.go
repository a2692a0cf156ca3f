package main

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// A page is a Markdown file of the repository.
type page struct {
	name     string // from the root, such as docs/log.md
	title    string
	source   []byte
	tree     ast.Node
	headings []heading
	anchors  map[string]bool
	sections []section
}

// A heading is of level 2 or 3: those of a page's table of contents.
type heading struct {
	Level        int
	Text, Anchor string
}

// A section is what the search finds: the text below a heading.
type section struct {
	Title  string `json:"t"`
	Anchor string `json:"a"`
	Text   string `json:"x"`
}

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM, extension.Footnote),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(html.WithXHTML()),
)

// out returns the path of the page in the site.
func (p *page) out() string {
	dir, file := path.Split(p.name)
	if file == "README.md" {
		return dir + "index.html"
	}
	return dir + strings.TrimSuffix(file, ".md") + ".html"
}

// parse reads a page. An error names HTML in it, which other readers of Markdown show differently;
// comments are left out.
func parse(name string, source []byte) (*page, error) {
	p := &page{name: name, source: source, anchors: make(map[string]bool)}
	context := parser.NewContext(parser.WithIDs(&slugs{used: make(map[string]int)}))
	p.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(context))
	var errs []error
	var drop []ast.Node
	err := ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.HTMLBlock:
			if raw := string(n.Lines().Value(source)); !strings.HasPrefix(raw, "<!--") {
				errs = append(errs, fmt.Errorf("%s: HTML: %s", name, strings.TrimSpace(raw)))
			}
			drop = append(drop, n)
		case *ast.RawHTML:
			errs = append(errs, fmt.Errorf("%s: HTML: %s; write it between backticks", name, n.Segments.Value(source)))
		case *ast.Image:
			if strings.Contains(string(n.Destination), "://") { // the site loads nothing from other servers
				drop = append(drop, n)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, n := range drop {
		remove(n, source)
	}
	p.index()
	if p.title == "" {
		errs = append(errs, fmt.Errorf("%s has no heading of level 1", name))
	}
	return p, errors.Join(append(errs, err)...)
}

// remove removes a node, and its parents if nothing else is in them.
func remove(n ast.Node, source []byte) {
	parent := n.Parent()
	if parent == nil {
		return
	}
	parent.RemoveChild(parent, n)
	for c := parent.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); !ok || strings.TrimSpace(string(t.Segment.Value(source))) != "" {
			return
		}
	}
	if parent.Kind() != ast.KindDocument {
		remove(parent, source)
	}
}

// index collects the title, the headings and the text of each section.
func (p *page) index() {
	current := section{}
	end := func() {
		current.Text = strings.Join(strings.Fields(current.Text), " ")
		if current.Title != "" {
			p.sections = append(p.sections, current)
		}
	}
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			current.Text += " " + plain(n, p.source)
			continue
		}
		id, _ := h.AttributeString("id")
		anchor, _ := id.([]byte)
		title := strings.TrimSpace(plain(h, p.source))
		p.anchors[string(anchor)] = true
		end()
		current = section{Title: title, Anchor: string(anchor)}
		switch {
		case h.Level == 1 && p.title == "":
			p.title = title
		case h.Level == 2 || h.Level == 3:
			p.headings = append(p.headings, heading{h.Level, title, string(anchor)})
		}
	}
	end()
}

// plain returns the text of a node without marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // no step returns an error
		if !entering {
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(source))
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			b.Write(n.Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// slugs gives headings the anchors that GitHub gives them, so that links work in both.
type slugs struct{ used map[string]int }

// Generate implements parser.IDs.
func (s *slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(string(value)))
	times := s.used[name]
	s.used[name]++
	if times > 0 {
		name += "-" + strconv.Itoa(times)
	}
	return []byte(name)
}

// Put implements parser.IDs.
func (s *slugs) Put(value []byte) { s.used[string(value)]++ }
