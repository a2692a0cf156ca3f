package resolve

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// otherYAML are the blocks of pages that are no configuration of chronikd, by their first line.
var otherYAML = map[string]string{
	"current: prod": "the contexts of chronikctl",
}

// configBlocks returns the configurations of chronikd in a page: the blocks that are marked as
// YAML, and the indented ones whose first line sets something.
func configBlocks(page string) (blocks []string) {
	fence := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, m[1])
	}
	indented := regexp.MustCompile(`\n((?:    [^\n]*\n)(?:\n?    [^\n]*\n)*)`)
	setting := regexp.MustCompile(`^    (listeners|profiles|tls|oauth|[a-z-]+(\.[a-z-]+)+|listen|advertise):( |\n)`)
	for _, m := range indented.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		if setting.MatchString(m[1]) {
			blocks = append(blocks, regexp.MustCompile(`(?m)^    `).ReplaceAllString(m[1], ""))
		}
	}
	return blocks
}

// Every configuration in a page is one that chronikd accepts.
func TestPagesHaveConfigurationsThatStart(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("there are no pages: ", err)
	}
	checked := 0
	for _, path := range append(pages, "../../../README.md") {
		text, err := os.ReadFile(path)
		must.OK(t, err)
		for _, block := range configBlocks(string(text)) {
			first, _, _ := strings.Cut(block, "\n")
			if otherYAML[first] != "" {
				continue
			}
			checked++
			file := filepath.Join(t.TempDir(), "chronikd.yaml")
			must.OK(t, os.WriteFile(file, []byte(block), 0o600))
			if _, err := Load(config.Input{File: file, ReadFile: os.ReadFile}); err != nil {
				t.Errorf("%s: %v\n%s", path, err, block)
			}
		}
	}
	if checked < 5 {
		t.Errorf("only %d configurations were found", checked)
	}
}
