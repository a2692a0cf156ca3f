package system

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// sealed returns a change of a binary header: the version at one place, two bytes, and the CRC-32C
// that covers it at another.
func sealed(version, sum int, covered [2]int, copies ...int) func(p []byte) []byte {
	return func(p []byte) []byte {
		for _, at := range append([]int{0}, copies...) {
			h := p[at:]
			binary.LittleEndian.PutUint16(h[version:], binary.LittleEndian.Uint16(h[version:])+1)
			binary.LittleEndian.PutUint32(h[sum:], crc32.Checksum(h[covered[0]:covered[1]], crc32.MakeTable(crc32.Castagnoli)))
		}
		return p
	}
}

// named returns a change of the line with which a small file begins.
func named(p []byte) []byte {
	return regexp.MustCompile(`^(chronik-[a-z-]+) \d+`).ReplaceAll(p, []byte("${1} 99"))
}

// newerFiles are the files that have a version, by a pattern of their path below the directory of a
// broker, and what makes each that of a newer one. TestNewerFilesAreRefused finds what is missing.
func newerFiles() map[string]func([]byte) []byte {
	statelog, journal := sealed(10, 44, [2]int{0, 44}), sealed(8, 4, [2]int{8, 72}, 4096)
	return map[string]func([]byte) []byte{
		"d/metadata/*.snapshot": statelog, "d/metadata/*.log": statelog,
		"d/a/checkpoint/*.snapshot": statelog, "d/a/checkpoint/*.log": statelog,
		"d/a/journal/0*.journal": journal, "d/a/chronik.dir": named, "d/a/journal/chronik.journal": named,
	}
}

// unversioned are the other files, with what a start does about those of a newer version.
var unversioned = map[string]string{
	"d/.lock":                  "names the process that uses the directory",
	"d/?/.lock":                "names the process that uses the directory",
	"d/?/*/*.log":              "a segment: each of its record batches has a version, and an unknown one is damage",
	"d/?/*/*.producers":        "a cache: one that cannot be read is made again from the segments",
	"d/?/*/*.txnindex":         "Kafka's, without a version; the checkpoint has its checksum",
	"d/?/*/*.index":            "a cache: one that cannot be read is made again from the segment",
	"d/?/*/*.timeindex":        "a cache: one that cannot be read is made again from the segment",
	"d/?/*/partition.metadata": "Kafka's; a start does not read it, but a repair does",
	"d/?/*/chronik.move":       "a log that moved from another directory, which the checkpoint knows",
	"d/log-dirs":               "for messages only: without it directories that are not there have no path",
	"d/?/chronik.high":         "a cache: without it high watermarks are those of the checkpoint",
	"d/?/chronik.scrub":        "a cache: without it reading begins again",
	"d/?/checkpoint.copy/*":    "a copy that a start does not read",
	"d/?/metadata.copy/*":      "a copy that a start does not read",
	"d/b/checkpoint/*":         "as in d/a",
	"d/b/chronik.dir":          "as in d/a",
	"d/b/journal/*":            "as in d/a",
}

// A broker refuses a directory with a file of a newer version: it ends with exit code 3, the error
// names the file, both versions and the remedy, and every file stays as it is. With the file put
// back, the broker is a member of its cluster again.
func TestNewerFilesAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	root := t.TempDir()
	unpackSparse(t, filepath.Join(releases, "0.1.0.tar.zst"), root)
	c := keptNodes(t, root, 3)
	known := slices.Concat(slices.Collect(maps.Keys(newerFiles())), slices.Collect(maps.Keys(unversioned)))
	for name := range hashes(t, c.dirs[0]) {
		if !slices.ContainsFunc(known, func(pattern string) bool { ok, _ := filepath.Match(pattern, name); return ok }) {
			t.Errorf("%s is in none of the lists of this test, and perhaps not in docs/formats.md", name)
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(newerFiles())) {
		found, err := filepath.Glob(filepath.Join(c.dirs[0], pattern))
		if err != nil || len(found) == 0 {
			t.Errorf("%s: nothing, %v", pattern, err)
			continue
		}
		file := found[len(found)-1]
		was, err := os.ReadFile(file)
		must.OK(t, err)
		newer := newerFiles()[pattern](slices.Clone(was))
		if bytes.Equal(newer, was) {
			t.Errorf("%s is unchanged", file)
		}
		must.OK(t, os.WriteFile(file, newer, 0o600))
		before := hashes(t, c.dirs[0])
		c.launch(0)
		p := c.run[0]
		c.refused(0, "start the version that wrote it", filepath.Base(file))
		if code := p.cmd.ProcessState.ExitCode(); code != exit.Data {
			t.Errorf("%s: exit code %d", pattern, code)
		}
		for name, sum := range hashes(t, c.dirs[0]) {
			if before[name] != sum && filepath.Base(name) != ".lock" {
				t.Errorf("%s: the refused start changed %s", pattern, name)
			}
			delete(before, name)
		}
		if len(before) > 0 {
			t.Errorf("%s: the refused start removed %v", pattern, slices.Sorted(maps.Keys(before)))
		}
		must.OK(t, os.WriteFile(file, was, 0o600))
	}
	want, err := os.ReadFile(filepath.Join(releases, "0.1.0.txt"))
	must.OK(t, err)
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	c.sees(0, []int{0, 1, 2}, "records", 3)
	c.eventually("with the files put back", func(context.Context) string { return differ(c.facts(), string(want)) })
	c.end(syscall.SIGTERM, 0, 1, 2)
}

// hashes returns the hash of each file below a directory.
func hashes(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	all := map[string][sha256.Size]byte{}
	must.OK(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		all[path] = sha256.Sum256(text)
		return err
	}))
	return all
}
