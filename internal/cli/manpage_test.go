package cli

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// tool returns a command line with everything that a page shows or must hide.
func tool() *cobra.Command {
	root := &cobra.Command{Use: "tool", Long: "tool does things.\n\n  tool -x\n\n.it 'is' a \\ tool",
		Run: func(*cobra.Command, []string) {}}
	root.PersistentFlags().StringP("out", "o", "here", "where `FILE` goes")
	group := &cobra.Command{Use: "topic", Short: "Topics"}
	create := &cobra.Command{Use: "create NAME", Short: "Create one", Example: "tool topic create a", Run: root.Run}
	create.Flags().Bool("dry-run", false, "only say it")
	secret := &cobra.Command{Use: "secret", Short: "Not for people", Hidden: true, Run: root.Run}
	group.AddCommand(create)
	root.AddCommand(group, secret)
	return root
}

func page(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	p := ManPage{Name: "tool", Section: 1, Version: "v1", Short: "does things", Command: tool(),
		Sections: []ManSection{{Title: "EXIT STATUS", Items: []ManItem{{"0", "all was done"}}}}}
	must.OK(t, p.Write(&b))
	if p.File() != "tool.1" {
		t.Errorf("the file is %s", p.File())
	}
	return b.String()
}

func TestManPageHasAllCommandsAndFlags(t *testing.T) {
	got := page(t)
	for _, want := range []string{`.TH "TOOL" 1 "" "chronik v1" "chronik"`, `tool \- does things`, `.SS "tool topic create NAME [flags]"`,
		"Create one.", `\-o, \-\-out FILE`, `(default here)`, `\-\-dry\-run`, ".SH \"EXIT STATUS\"", "all was done",
		"tool topic create a"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, not := range []string{"secret", "Not for people", `.SS "tool topic"`, "\n.it"} {
		if strings.Contains(got, not) {
			t.Errorf("%q in\n%s", not, got)
		}
	}
}

// man(1) prints every character of the texts.
func TestManPrintsTheTextsUnchanged(t *testing.T) {
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("man is not installed")
	}
	cmd := exec.Command("man", "--local-file", "--warnings=w", "-")
	cmd.Env = append(cmd.Environ(), "MANWIDTH=100", "LC_ALL=C", "PAGER=cat", "MANPAGER=cat")
	cmd.Stdin = strings.NewReader(page(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("man cannot format here: %v", err)
	}
	for _, want := range []string{`.it 'is' a \ tool`, "--dry-run", "tool -x"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "warning") {
		t.Errorf("%s", out)
	}
}
