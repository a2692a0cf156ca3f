package lint

import (
	"path/filepath"
	"strings"
	"testing"
)

// docs/README.md orders the pages by purpose; it links every one of them.
func TestIndexLinksEveryPage(t *testing.T) {
	const index = "docs/README.md"
	all := pages(t)
	for page := range all {
		if filepath.Dir(page) == "docs" && page != index && !strings.Contains(all[index], "("+filepath.Base(page)+")") {
			t.Errorf("%s has no link to %s", index, page)
		}
	}
}
