// Command site writes the documentation site: a page of HTML for each page of the repository, with
// a search that needs no server. Run it in the root of the repository, through `make site`:
//
//	site [-into DIR] [-version TEXT]
//
// The order of the pages is that of docs/README.md. The command fails if a page is not in it, if a
// link leads to no page, no heading or no tracked file, if a page contains HTML, and if what it
// wrote is not well-formed or loads anything from another server. The site also works from file://.
// The command knows only README.md and docs/README.md by name, and publishes nothing.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	into := flag.String("into", "dist/site", "the directory of the site, which is replaced")
	version := flag.String("version", "", "the version of chronik that the pages name")
	flag.Parse()
	pages, err := run(".", *into, *version)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", strings.ReplaceAll(err.Error(), "\n", "\nsite: "))
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s; open %s\n", pages, *into, filepath.Join(*into, "index.html"))
}

// run writes the site of the repository at root and returns how many pages it has. It reports all
// mistakes of the pages, not only the first.
func run(root, into, version string) (int, error) {
	s, err := load(root)
	if err != nil {
		return 0, err
	}
	s.version = version
	if err := errors.Join(s.order(), s.resolve()); err != nil {
		return 0, err
	}
	if err := s.write(into); err != nil {
		return 0, err
	}
	return len(s.pages), check(into)
}

// load reads the pages of a repository: those that git tracks in its root and in docs.
func load(root string) (*site, error) {
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files in %s: %w", root, err)
	}
	s := &site{root: root, pages: make(map[string]*page), tracked: make(map[string]bool)}
	var errs []error
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		s.tracked[name] = true
		dir := filepath.Dir(name)
		for ; dir != "."; dir = filepath.Dir(dir) {
			s.tracked[dir] = true
		}
		if dir = filepath.Dir(name); filepath.Ext(name) != ".md" || dir != "." && dir != "docs" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p, err := parse(name, text)
		errs = append(errs, err)
		s.pages[name] = p
	}
	return s, errors.Join(errs...)
}
