package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// pages returns the text of the pages in the root and in docs by their path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no documentation: %v", err)
	}
	root, err := filepath.Glob("../../../*.md")
	if err != nil || len(root) == 0 {
		t.Fatalf("no pages in the root: %v", err)
	}
	all := make(map[string]string)
	for _, p := range append(paths, root...) {
		text, err := os.ReadFile(p)
		must.OK(t, err)
		all[strings.TrimPrefix(p, "../../../")] = string(text)
	}
	return all
}

// miscounted returns the sentences that announce a number of commands and are followed by a block
// with another number of them.
func miscounted(text string) (wrong []string) {
	numbers := []string{"", "One", "Two", "Three", "Four", "Five", "Six"}
	announced := regexp.MustCompile(`(?m)^([A-Z]\w+) commands? ([^:\n]*\n?[^:\n]*):\n\n((?: {4}.*\n)+)`)
	for _, m := range announced.FindAllStringSubmatch(text, -1) {
		if n := slices.Index(numbers, m[1]); n > 0 && n != strings.Count(m[3], "\n")-strings.Count(m[3], "\\\n") {
			wrong = append(wrong, m[1]+" commands "+m[2])
		}
	}
	return wrong
}

// TestCommandsAreCounted checks that as many commands follow a sentence as it says.
func TestCommandsAreCounted(t *testing.T) {
	for name, text := range pages(t) {
		for _, wrong := range miscounted(text) {
			t.Errorf("%s: another number of commands follows %q", name, wrong)
		}
	}
	if got := miscounted("Two commands help:\n\n    a b\n\nOne command helps:\n\n    a \\\n    b\n"); len(got) != 1 {
		t.Errorf("found %q", got)
	}
}

// prose returns a page without its code: fenced, indented and between backticks.
func prose(text string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if !fenced && !strings.HasPrefix(line, "    ") {
			b.WriteString(regexp.MustCompile("`[^`]*`").ReplaceAllString(line, "``"))
		}
	}
	return b.String()
}

// anchors returns the names that headings get on a web page.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		title := strings.TrimLeft(line, "#")
		if fenced || title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.TrimSpace(title))
		all[name] = true
	}
	return all
}

// A link inside the documentation leads to an existing file and heading.
func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	links := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	found := 0
	for page, text := range all {
		for _, m := range links.FindAllStringSubmatch(prose(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat("../../../" + target); err != nil {
				t.Errorf("%s: %s leads to no file", page, m[1])
			} else if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s: %s leads to no heading", page, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links were found: does the pattern still match?", found)
	}
}

// Every page can be found from README.md.
func TestReadmeNamesEveryPage(t *testing.T) {
	all := pages(t)
	for page := range all {
		if page != "README.md" && !strings.Contains(all["README.md"], "("+page+")") {
			t.Errorf("README.md has no link to %s", page)
		}
	}
}

// commandName matches a command of chronikctl in a page.
var commandName = regexp.MustCompile("(?m)(?:^    |`|\\$ (?:bin/)?)chronikctl ([a-z][a-z-]*(?: [a-z][a-z-]*)?)")

// Pages name only existing metrics, alerts and commands.
func TestPagesNameOnlyWhatExists(t *testing.T) {
	all := pages(t)
	rules, err := os.ReadFile("../../../deploy/prometheus/rules.yml")
	must.OK(t, err)
	commands, metrics := all["docs/chronikctl.md"], all["docs/metrics.md"]
	for page, text := range all {
		for _, name := range regexp.MustCompile("`(chronik_[a-z_]*[a-z])[^a-z_*]").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(metrics, "| `"+name[1]+"`") {
				t.Errorf("%s: there is no metric %s", page, name[1])
			}
		}
		for _, name := range regexp.MustCompile(`\bChronik[A-Z][A-Za-z]+`).FindAllString(text, -1) {
			if !strings.Contains(string(rules), "alert: "+name+"\n") {
				t.Errorf("%s: there is no alert %s", page, name)
			}
		}
		for _, m := range commandName.FindAllStringSubmatch(text, -1) {
			first, second, _ := strings.Cut(m[1], " ")
			line := regexp.MustCompile(`(?m)^    chronikctl ` + first + `( ` + second + `\b| [A-Z[]|$)`)
			if !line.MatchString(commands) && first != "completion" {
				t.Errorf("%s: there is no command chronikctl %s", page, m[1])
			}
		}
	}
}

// The messages in blocks marked "said" of troubleshooting.md are in the code or in golden files. A
// … stands for variable parts.
func TestQuotedMessagesExist(t *testing.T) {
	corpus := sources(t)
	quoted := 0
	for _, block := range strings.Split(pages(t)["docs/troubleshooting.md"], "\n```said\n")[1:] {
		said, _, _ := strings.Cut(block, "```")
		for line := range strings.Lines(said) {
			for _, part := range strings.Split(line, "…") {
				if part = strings.TrimSpace(part); len(part) < 4 {
					continue
				}
				quoted++
				if !strings.Contains(corpus, part) {
					t.Errorf("docs/troubleshooting.md quotes %q, which is in no message", part)
				}
			}
		}
	}
	if quoted < 20 {
		t.Errorf("only %d quotes were found: does the pattern still match?", quoted)
	}
}

// sources returns all texts of the code, concatenated if the code concatenates them, and the golden
// files.
func sources(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir("../../..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "docs" || d.Name() == "lint" || d.Name() == ".cache"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".golden"):
			text, err := os.ReadFile(path)
			b.Write(text)
			return err
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parse(path)
		if err != nil {
			return err
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			x, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			if s := constant(x); s != "" {
				b.WriteString(s + "\n")
				_, sum := x.(*ast.BinaryExpr)
				return !sum
			}
			return true
		})
		return nil
	})
	must.OK(t, err)
	return b.String()
}

// constant returns the text of a literal or of a sum of literals; any other operand ends the line.
func constant(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
			return s
		}
	case *ast.BinaryExpr:
		if left, right := constant(x.X), constant(x.Y); x.Op == token.ADD && left+right != "" {
			if _, literal := x.Y.(*ast.BasicLit); !literal {
				return left + "\n" + right
			}
			return left + right
		}
	}
	return ""
}
