package storage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/golden"
)

// Exact bytes of the small files of a log directory, so that no change of their formats goes
// unnoticed.
func TestFormatIsFixed(t *testing.T) {
	disk := crashfs.New(1)
	loc := Location{Path: "d", Journal: "j"}
	for _, dir := range []string{"d", "j"} {
		must(t, disk.MkdirAll(dir))
	}
	ident := Identity{Dir: [16]byte{0xd1, 15: 0xd2}, Journal: [16]byte{0xa1, 15: 0xa2}}
	must(t, writeIdentity(disk, loc, ident, false))
	must(t, writeIdentity(disk, loc, ident, true))

	id := ID{Topic: [16]byte{0xc1, 15: 0xc2}, Partition: 3}
	read := &scrubbed{done: time.UnixMilli(4), began: time.UnixMilli(5), next: 6}
	d := &Dir{path: "d", opt: &Options{FS: disk}, scrubbing: scrubbing{logs: map[ID]*scrubbed{id: read}, dirty: true}}
	d.saveScrubbed()

	own := mustOpen(t, disk, "sync")
	l := makeLogs(t, own, 1, "sync")[0]
	put(t, l, 10, 100)
	l.Observe(knowing{high: 6, epoch: 3})
	must(t, own.SaveHigh([]*Log{l}))
	e, _ := l.checkpointed(true)
	e.Swap = 7
	must(t, own.writeMove("t-0", ident.Dir, &e))
	got := ""
	partition := l.path + "/" + PartitionFile
	for _, name := range []string{"d/" + IdentityFile, "j/" + JournalIdentityFile, "d/" + ScrubFile, own.path + "/" + HighFile, partition,
		l.path + "/" + MoveFile} {
		got += fmt.Sprintf("%s %q\n\n", name, readFile(t, disk, name))
	}
	golden.File(t, "testdata/files.txt", strings.TrimSuffix(got, "\n"), "go test ./internal/storage -run FormatIsFixed")
}
