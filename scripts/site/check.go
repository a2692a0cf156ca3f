package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A document is what the check reads of a file of HTML.
type document struct {
	ids   map[string]bool
	links []string
}

// check reads a site as written: each file of HTML is well-formed, has each id once, and loads
// nothing from other servers; each link inside the site leads to a file and an id.
func check(dir string) error {
	documents := make(map[string]*document)
	files := make(map[string]bool)
	var errs []error
	err := filepath.WalkDir(dir, func(at string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		files[name] = true
		if path.Ext(name) != ".html" {
			return nil
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		doc, err := read(data)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		documents[name] = doc
		return nil
	})
	for name, doc := range documents {
		for _, link := range doc.links {
			if err := follow(name, link, files, documents); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(append(errs, err)...)
}

// loads are the attributes with which an element loads another file.
var loads = map[string]string{"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}

// read parses a file as XML, which is stricter than HTML: every element is closed.
func read(data []byte) (*document, error) {
	doc := &document{ids: make(map[string]bool)}
	d := xml.NewDecoder(bytes.NewReader(data))
	d.Entity = xml.HTMLEntity
	var errs []error
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return doc, errors.Join(errs...)
		}
		if err != nil {
			return doc, errors.Join(append(errs, err)...)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range element.Attr {
			name := a.Name.Local
			switch {
			case name == "id" && doc.ids[a.Value]:
				errs = append(errs, fmt.Errorf("the id %q is there twice", a.Value))
			case name == "id":
				doc.ids[a.Value] = true
			case loads[element.Name.Local] == name && (strings.Contains(a.Value, "://") || strings.HasPrefix(a.Value, "//")):
				errs = append(errs, fmt.Errorf("it loads %s from another server", a.Value))
			case name == "href" || name == "src":
				doc.links = append(doc.links, a.Value)
			case name == "style" || strings.HasPrefix(name, "on"):
				errs = append(errs, fmt.Errorf("it has the attribute %s", name))
			}
		}
	}
}

// follow checks a link of a file of the site.
func follow(from, link string, files map[string]bool, documents map[string]*document) error {
	u, err := url.Parse(link)
	if err != nil {
		return err
	}
	if u.Scheme != "" || u.Host != "" {
		return nil
	}
	target := from
	if u.Path != "" {
		target = path.Join(path.Dir(from), u.Path)
	}
	if !files[target] {
		return fmt.Errorf("%s leads to no file of the site", link)
	}
	if doc := documents[target]; u.Fragment != "" && (doc == nil || !doc.ids[u.Fragment]) {
		return fmt.Errorf("%s leads to no id of %s", link, target)
	}
	return nil
}
