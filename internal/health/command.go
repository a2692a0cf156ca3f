package health

import (
	"path/filepath"
	"strings"
)

// Command returns a command of a remedy, in backticks and quoted for a POSIX shell: names of groups
// and directories may hold any character, and people copy the command into a shell.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return "`" + strings.Join(quoted, " ") + "`"
}

// quote quotes a word unless no shell interprets it.
func quote(w string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./_-", r)
	}
	if w != "" && strings.IndexFunc(w, func(r rune) bool { return !plain(r) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// Path returns a path for commands that an operator runs in another working directory.
func Path(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}
