package health

import "strings"

// Command is a command of a remedy, in backticks, as a POSIX shell accepts it: words that the
// shell would split or interpret are quoted. Names of groups and directories may hold any
// character, and what a remedy shows is copied into a shell.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return "`" + strings.Join(quoted, " ") + "`"
}

// quote leaves a word alone that no shell interprets.
func quote(w string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./_-", r)
	}
	if w != "" && strings.IndexFunc(w, func(r rune) bool { return !plain(r) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
