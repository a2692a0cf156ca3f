package secureinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/vfs"
)

// roster is the brokers of a cluster that were given a number. It is kept next to the authority's
// certificate, since the directories of brokers are moved to their machines. The file has a line
// for each broker, its number and then its addresses, with spaces between them. Lines that begin
// with # are comments.
type roster []entry

type entry struct {
	id        int
	addresses []string
}

const rosterHead = "# The brokers of this cluster: number and addresses. `chronikd secure add` gives none of them again.\n" +
	"# Of a broker that is gone, you may remove the addresses. Keep its number.\n"

func rosterPath(dir string) string { return filepath.Join(dir, "nodes") }

func rosterOf(plans []nodePlan) (r roster) {
	for i := range plans {
		r = append(r, entry{plans[i].id, plans[i].addresses()})
	}
	return r
}

// readRoster reads the roster of a directory, without the brokers of an attempt to add some that
// failed. Without a file it is empty.
func readRoster(dir string) (r roster, err error) {
	path := rosterPath(dir)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all, err := parseRoster(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, e := range all {
		_, err = os.Lstat(filepath.Join(stage(dir), fmt.Sprintf("node-%d", e.id)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			r = append(r, e)
		case err != nil:
			return nil, err
		}
	}
	return r, nil
}

// parseRoster is the reverse of text.
func parseRoster(text string) (r roster, err error) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		id, err := strconv.Atoi(words[0])
		if err != nil || id < 1 {
			return nil, fmt.Errorf("the line %q does not begin with the number of a broker; repair it, or put a copy back",
				strings.TrimSpace(line))
		}
		r = append(r, entry{id, words[1:]})
	}
	return r, nil
}

// last returns the highest number, 0 without one.
func (r roster) last() (n int) {
	for _, e := range r {
		n = max(n, e.id)
	}
	return n
}

// used returns all addresses in lower case.
func (r roster) used() map[string]bool {
	used := make(map[string]bool)
	for _, e := range r {
		for _, at := range e.addresses {
			used[strings.ToLower(at)] = true
		}
	}
	return used
}

// text returns the content of the file.
func (r roster) text() []byte {
	var b strings.Builder
	b.WriteString(rosterHead)
	for _, e := range r {
		fmt.Fprintln(&b, strings.TrimSpace(strconv.Itoa(e.id)+" "+strings.Join(e.addresses, " ")))
	}
	return []byte(b.String())
}

// save replaces the file, durably.
func (r roster) save(dir string) error {
	path := rosterPath(dir)
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeNew(path+".new", r.text()); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error { return vfs.OS().SyncDir(dir) }
