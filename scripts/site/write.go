package main

import (
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"os"
	"path/filepath"
)

//go:embed assets
var assets embed.FS

// view is what the layout shows.
type view struct {
	Title, Version, Root string
	Page                 *page
	Groups               []navGroup
	Headings             []heading
	Body                 template.HTML
	Before, After        *navPage
}

type navGroup struct {
	Title string
	Pages []navPage
}

type navPage struct {
	Title, Link string
	Current     bool
}

// write replaces the directory by the site.
func (s *site) write(into string) error {
	layout, err := template.ParseFS(assets, "assets/layout.html")
	if err != nil {
		return err
	}
	if err := replaceable(into); err != nil {
		return err
	}
	if err := os.RemoveAll(into); err != nil {
		return err
	}
	var order []*page
	for _, g := range s.groups {
		order = append(order, g.Pages...)
	}
	for i, p := range order {
		if err := s.writePage(into, layout, order, i); err != nil {
			return errors.Join(errors.New(p.name), err)
		}
	}
	for _, name := range s.images {
		data, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			return err
		}
		if err := put(filepath.Join(into, name), data); err != nil {
			return err
		}
	}
	for _, name := range []string{"style.css", "site.js"} {
		data, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		if err := put(filepath.Join(into, "assets", name), data); err != nil {
			return err
		}
	}
	return s.writeIndex(filepath.Join(into, "assets", "search-index.js"), order)
}

// replaceable refuses a directory that holds something else than a site.
func replaceable(dir string) error {
	in, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(in) == 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "assets", "search-index.js")); err != nil {
		return errors.New(dir + " is no site, and would be replaced; remove it, or name another directory")
	}
	return err
}

// writePage writes the page with the number i.
func (s *site) writePage(into string, layout *template.Template, order []*page, i int) error {
	p := order[i]
	body, err := p.render()
	if err != nil {
		return err
	}
	v := view{
		Title: p.title, Version: s.version, Root: relative(p.out(), "."), Page: p, Headings: p.headings,
		Body: template.HTML(body), //nolint:gosec // the pages are ours, and have no HTML of their own
	}
	link := func(to *page) navPage {
		title := to.title
		if to.name == index {
			title = "All pages"
		}
		return navPage{Title: title, Link: relative(p.out(), to.out()), Current: to == p}
	}
	for _, g := range s.groups {
		n := navGroup{Title: g.Title}
		for _, to := range g.Pages {
			n.Pages = append(n.Pages, link(to))
		}
		v.Groups = append(v.Groups, n)
	}
	if i > 0 {
		before := link(order[i-1])
		v.Before = &before
	}
	if i+1 < len(order) {
		after := link(order[i+1])
		v.After = &after
	}
	path := filepath.Join(into, p.out())
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(layout.Execute(f, v), f.Close())
}

// writeIndex writes what the search looks through. It is a script, because a page of file:// may
// not read other files.
func (s *site) writeIndex(path string, order []*page) error {
	type entry struct {
		Page     string    `json:"p"`
		Title    string    `json:"t"`
		Sections []section `json:"s"`
	}
	all := make([]entry, 0, len(order))
	for _, p := range order {
		all = append(all, entry{p.out(), p.title, p.sections})
	}
	data, err := json.Marshal(all) // it escapes <, so that the script may stand in HTML
	if err != nil {
		return err
	}
	return put(path, append(append([]byte("window.searchIndex="), data...), ';', '\n'))
}

// put writes a file and its directory.
func put(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
