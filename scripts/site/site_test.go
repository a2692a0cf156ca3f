package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes a repository with an index, a first page and other files, and returns its directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{
		"README.md":      "# chronik\n\n[![badge](https://example.com/b.svg)](docs/a.md)\n\n[index](docs/README.md)\n",
		"docs/README.md": "# Documentation\n\n## Use\n\n| page | what |\n|---|---|\n| [a.md](a.md) | text |\n",
		"docs/a.md":      "# A\n\n<!-- generated -->\n\n## First `part` of it\n\nText & more.\n",
	}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		if err := put(filepath.Join(root, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return root
}

func TestASiteIsWritten(t *testing.T) {
	root := tree(t, map[string]string{
		"docs/a.md":  "# A\n\n## First `part` of it\n\n[up](../README.md) [here](#first-part-of-it) [code](../go.mod) ![p](p.png)\n\n| a | b |\n|---|---|\n| 1 | <http://127.0.0.1/> |\n",
		"docs/p.png": "picture", "go.mod": "module x\n",
	})
	into := filepath.Join(t.TempDir(), "site")
	for range 2 { // the second run replaces the first
		n, err := run(root, into, "v1")
		if err != nil || n != 3 {
			t.Fatalf("%d pages, %v", n, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(into, "docs", "a.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`href="../index.html">up`, `href="#first-part-of-it">here`, `href="` + repository + `go.mod"`, `src="p.png"`,
		`<h2 id="first-part-of-it">`, `<div class="table"><table>`, `aria-current="page">A<`, `<small>v1</small>`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("a.html lacks %s", want)
		}
	}
	home, err := os.ReadFile(filepath.Join(into, "index.html"))
	if err != nil || strings.Contains(string(home), "example.com") {
		t.Errorf("the picture of another server is still there, %v", err)
	}
	found, err := os.ReadFile(filepath.Join(into, "assets", "search-index.js"))
	if err != nil || !strings.Contains(string(found), `{"t":"First part of it","a":"first-part-of-it","x":"up here code`) {
		t.Errorf("the search index is %s, %v", found, err)
	}
}

func TestMistakesOfPagesAreReported(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"a missing file":            {"# A\n\n[x](b.md)\n", "b.md leads to no file"},
		"an untracked parent":       {"# A\n\n[x](../../etc/passwd)\n", "leads to no file"},
		"a missing heading":         {"# A\n\n[x](README.md#abuse)\n", "leads to no heading of docs/README.md"},
		"a missing heading here":    {"# A\n\n[x](#b)\n", "#b leads to no heading"},
		"an anchor in no page":      {"# A\n\n[x](../go.mod#L1)\n", "is no page"},
		"a missing picture":         {"# A\n\n![x](x.png)\n", "x.png is no file"},
		"HTML":                      {"# A\n\na <b>c</b>\n", "HTML: <b>"},
		"a block of HTML":           {"# A\n\n<div>\nx\n</div>\n", "HTML: <div>"},
		"no title":                  {"## A\n", "no heading of level 1"},
		"a missing file in a table": {"# A\n\n| a |\n|---|\n| [x](c.md) |\n", "c.md leads to no file"},
	} {
		root := tree(t, map[string]string{"docs/a.md": c.page, "go.mod": "module x\n"})
		_, err := run(root, filepath.Join(t.TempDir(), "site"), "")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.want)
		}
	}
	root := tree(t, map[string]string{"docs/b.md": "# B\n"})
	_, err := run(root, filepath.Join(t.TempDir(), "site"), "")
	if err == nil || !strings.Contains(err.Error(), "no table has a row for docs/b.md") {
		t.Errorf("a page that the index lacks: %v", err)
	}
}

func TestTheSiteAsWrittenIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"<p>":                                  "closed by",
		"<p><b></p></b>":                       "element <b>",
		`<p id="a"/><p id="a"/>`:               "twice",
		`<a href="b.html">x</a>`:               "leads to no file",
		`<a href="#b">x</a>`:                   "leads to no id",
		`<img src="https://example.com/a" />`:  "another server",
		`<script src="//example.com/"/>`:       "another server",
		`<link href="http://example.com/" />`:  "another server",
		`<p onclick="x()">a</p>`:               "attribute onclick",
		`<a href="https://example.com/">x</a>`: "",
		`<p id="b"/><a href="a.html#b">x</a>`:  "",
	} {
		dir := t.TempDir()
		if err := put(filepath.Join(dir, "a.html"), []byte("<html>"+text+"</html>")); err != nil {
			t.Fatal(err)
		}
		err := check(dir)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: the error is %v, want %q", text, err, want)
		}
	}
}

func TestOtherDirectoriesAreNotReplaced(t *testing.T) {
	dir := t.TempDir()
	if err := put(filepath.Join(dir, "thesis.txt"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := run(tree(t, nil), dir, ""); err == nil || !strings.Contains(err.Error(), "is no site") {
		t.Errorf("the error is %v", err)
	}
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	s := slugs{used: map[string]int{}}
	for _, c := range [][2]string{
		{"GET /v1/waits", "get-v1waits"}, {"What's new?", "whats-new"}, {"A – b", "a--b"}, {"A – b", "a--b-1"},
		{"TLS, logins", "tls-logins"},
	} {
		if got := string(s.Generate([]byte(c[0]), 0)); got != c[1] {
			t.Errorf("%q: %s, want %s", c[0], got, c[1])
		}
	}
}
