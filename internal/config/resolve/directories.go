package resolve

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/configdef"
)

// Names below the data directory.
const (
	MetadataDir = "metadata"
	LogsDir     = "logs"
)

// checkPlaces rejects directories that would contain one another's files. The broker would notice
// some of these mistakes at its start and others never.
func checkPlaces(data string, static map[string]string) error {
	logs, err := placesOf(static, "log.dirs")
	if err != nil {
		return err
	}
	for text := range strings.SplitSeq(static["log.dirs"], ",") {
		if strings.TrimSpace(text) != configdef.NoLogs {
			continue
		}
		if len(logs) > 1 {
			return errors.New("log.dirs names none and directories; write none alone, or ./none for a directory of that name")
		}
		logs = nil
	}
	journals, err := placesOf(static, "journal.dirs")
	if err != nil {
		return err
	}
	if len(journals) > len(logs) {
		return fmt.Errorf(
			"journal.dirs has %d entries and log.dirs %d; write one for each entry of log.dirs, in that order",
			len(journals),
			len(logs),
		)
	}
	own := []string{path.Clean(data), path.Join(data, MetadataDir)}
	for i, p := range logs {
		for _, other := range logs[:i] {
			if Within(p, other) || Within(other, p) {
				return fmt.Errorf("log.dirs names %s and %s; give each log directory a place outside of the others", other, p)
			}
		}
		if slices.Contains(own, p) {
			return fmt.Errorf(
				"log.dirs names %s, where data.dir keeps its own files; choose a directory of its own, for example %s",
				p,
				path.Join(data, LogsDir),
			)
		}
	}
	for i, p := range journals {
		if slices.Contains(journals[:i], p) {
			return fmt.Errorf("journal.dirs names %s twice; give each log directory a journal of its own", p)
		}
		if slices.Contains(own, p) || slices.Contains(logs, p) {
			return fmt.Errorf("journal.dirs names %s, which holds other files of the broker; choose a directory of its own", p)
		}
	}
	return checkArchive(static["archive.url"], slices.Concat([]string{path.Clean(data)}, logs, journals))
}

// checkArchive rejects an object store that would be lost together with the broker's directories.
func checkArchive(url string, own []string) error {
	at, err := configdef.ParseArchiveURL(url)
	if url == "" || err != nil || at.Dir == "" { // an error is that of the setting
		return nil
	}
	for _, dir := range own {
		if abs, err := filepath.Abs(dir); err == nil && Within(at.Dir, abs) {
			return fmt.Errorf("archive.url names %s, which is in %s, a directory of this broker, and would be lost with it; "+
				"choose a directory on another disk or machine", at.Dir, abs)
		}
	}
	return nil
}

// checkDefault rejects a data directory whose name cannot be in a list, which log.dirs is.
func checkDefault(data string) error {
	first := path.Join(data, LogsDir)
	if strings.Contains(first, ",") || strings.TrimSpace(first) != first {
		return fmt.Errorf("data.dir is %q, and log.dirs is a list with %s by default: it can contain no comma, and no space before a name; "+
			"choose another name, or set log.dirs", data, first)
	}
	return nil
}

// absolute makes the log directories independent of the working directory.
func absolute(set map[string]string) error {
	for _, setting := range []string{"log.dirs", "journal.dirs"} {
		places, err := placesOf(set, setting)
		if err != nil || slices.Contains(places, configdef.NoLogs) {
			continue // no directory, or an error of checkPlaces
		}
		for i, p := range places {
			if places[i], err = filepath.Abs(p); err != nil {
				return err
			}
			if strings.Contains(places[i], ",") {
				return fmt.Errorf("%s has %s, and %s cannot be in a list, because it has a comma; choose a directory with another name",
					setting, p, places[i])
			}
		}
		if len(places) > 0 {
			set[setting] = strings.Join(places, ",")
		}
	}
	return nil
}

// placesOf returns the directories that a setting names.
func placesOf(static map[string]string, setting string) ([]string, error) {
	if strings.TrimSpace(static[setting]) == "" {
		return nil, nil
	}
	var all []string
	for _, p := range strings.Split(static[setting], ",") {
		if p = strings.TrimSpace(p); p == "" {
			return nil, fmt.Errorf("%s has an empty entry; remove the extra comma", setting)
		}
		all = append(all, path.Clean(p))
	}
	return all, nil
}

// Within reports whether p is other or lies below it.
func Within(p, other string) bool { return p == other || strings.HasPrefix(p, other+"/") }
