package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	exast "github.com/yuin/goldmark/extension/ast"
)

// repository is where links to files that are no pages lead.
const repository = "https://github.com/chronik-io/chronik/blob/main/"

// A site is all pages, with the order of the navigation.
type site struct {
	root    string
	version string
	pages   map[string]*page
	tracked map[string]bool // files and directories of the repository
	groups  []group
	images  []string // files that pages show
}

// A group is a section of the navigation.
type group struct {
	Title string
	Pages []*page
}

// index is the page that orders the others.
const index = "docs/README.md"

// order reads the groups from the tables of docs/README.md: each row's first link is a page.
func (s *site) order() error {
	top, ok := s.pages[index]
	if !ok {
		return fmt.Errorf("%s is missing: it orders the pages", index)
	}
	home, ok := s.pages["README.md"]
	if !ok {
		return errors.New("README.md is missing: it is the first page")
	}
	placed := map[*page]bool{home: true, top: true}
	s.groups = []group{{"", []*page{home, top}}}
	var errs []error
	for n := top.tree.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				s.groups = append(s.groups, group{Title: plain(n, top.source)})
			}
		case *exast.Table:
			for row := n.FirstChild(); row != nil; row = row.NextSibling() {
				p := s.firstPage(top, row)
				if p == nil || placed[p] {
					continue
				}
				placed[p] = true
				last := &s.groups[len(s.groups)-1]
				last.Pages = append(last.Pages, p)
			}
		}
	}
	for _, name := range s.names() {
		if !placed[s.pages[name]] {
			errs = append(errs, fmt.Errorf("%s: no table has a row for %s", index, name))
		}
	}
	s.groups = slices.DeleteFunc(s.groups, func(g group) bool { return len(g.Pages) == 0 })
	return errors.Join(errs...)
}

// firstPage returns the page to which the first link of a row leads, or nil.
func (s *site) firstPage(from *page, row ast.Node) *page {
	var found *page
	_ = ast.Walk(row, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // no step returns an error
		if link, ok := n.(*ast.Link); ok && entering && found == nil {
			found = s.pages[path.Join(path.Dir(from.name), string(link.Destination))]
		}
		return ast.WalkContinue, nil
	})
	return found
}

// names returns the names of the pages, sorted.
func (s *site) names() []string {
	names := make([]string, 0, len(s.pages))
	for name := range s.pages {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// resolve replaces the destinations of all links and images by those in the site.
func (s *site) resolve() error {
	var errs []error
	for _, name := range s.names() {
		p := s.pages[name]
		err := ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if !entering {
				return ast.WalkContinue, nil
			}
			var err error
			switch n := n.(type) {
			case *ast.Link:
				n.Destination, err = s.destination(p, n.Destination)
			case *ast.Image:
				n.Destination, err = s.picture(p, n.Destination)
			}
			errs = append(errs, err)
			return ast.WalkContinue, nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// destination returns where a link of a page leads to in the site.
func (s *site) destination(from *page, link []byte) ([]byte, error) {
	u, err := url.Parse(string(link))
	if err != nil {
		return link, fmt.Errorf("%s: %w", from.name, err)
	}
	if u.Scheme != "" || u.Host != "" {
		return link, nil
	}
	target := from.name
	if u.Path != "" {
		target = path.Join(path.Dir(from.name), u.Path)
	}
	to, ok := s.pages[target]
	switch {
	case ok && u.Fragment != "" && !to.anchors[u.Fragment]:
		return link, fmt.Errorf("%s: %s leads to no heading of %s", from.name, link, target)
	case ok && u.Path == "":
		return link, nil
	case ok:
		u.Path = relative(from.out(), to.out())
		return []byte(u.String()), nil
	case !s.tracked[target]:
		return link, fmt.Errorf("%s: %s leads to no file that git tracks", from.name, link)
	case u.Fragment != "":
		return link, fmt.Errorf("%s: %s has an anchor, and %s is no page", from.name, link, target)
	}
	return []byte(repository + target), nil
}

// picture returns where an image is in the site.
func (s *site) picture(from *page, link []byte) ([]byte, error) {
	target := path.Join(path.Dir(from.name), string(link))
	if !s.tracked[target] {
		return link, fmt.Errorf("%s: the picture %s is no file that git tracks", from.name, link)
	}
	if !slices.Contains(s.images, target) {
		s.images = append(s.images, target)
	}
	return []byte(relative(from.out(), target)), nil
}

// relative returns the path from one file of the site to another one.
func relative(from, to string) string {
	rel, err := filepath.Rel(path.Dir(from), to)
	if err != nil {
		panic(err) // both are relative to the site
	}
	return filepath.ToSlash(rel)
}

// render returns the HTML of a page's text. Tables are wrapped, so that wide ones scroll.
func (p *page) render() (string, error) {
	var b bytes.Buffer
	err := markdown.Renderer().Render(&b, p.source, p.tree)
	text := strings.NewReplacer("<table>", `<div class="table"><table>`, "</table>", "</table></div>").Replace(b.String())
	for _, h := range p.headings {
		open := fmt.Sprintf(`<h%d id="%s">`, h.Level, h.Anchor)
		text = strings.Replace(text, open, open+`<a class="anchor" href="#`+h.Anchor+`" aria-hidden="true" tabindex="-1">#</a>`, 1)
	}
	return text, err
}
