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

// Rejoin returns what to do about the metadata directory of a member of a cluster that cannot be
// used: to move it to a name that nothing has, free. A move to a directory would end in it. The
// texts of a start and of an offline inspection are the same.
func Rejoin(dir, free string) string {
	return "if a majority of the voters has whole metadata, nothing is lost: run " + Command("mv", Path(dir), Path(free)) +
		", keep the log directories, and start this broker: it joins as another member and copies the metadata. " +
		"Only if this broker is the only voter, or most voters have lost their metadata, run `chronikd recover` on a voter that has it, " +
		"or with --from a backup (docs/cluster.md, Recover lost metadata); never start a broker with a backup in the place of its metadata"
}
