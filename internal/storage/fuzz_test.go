package storage

import (
	"bytes"
	"encoding/binary"
	"path"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Whatever the payload of a small file is, its reader neither panics nor accepts what it would not
// write. The payloads have a valid header: statefile.FuzzParse tries the others.
func FuzzSmallFiles(f *testing.F) {
	id := ID{Topic: [16]byte{0xc1, 15: 0xc2}, Partition: 3}
	f.Add([]byte("directory d1000000000000000000000000000000\njournal a1000000000000000000000000000000\n"))
	f.Add(partitionMetaOf(id))
	f.Add([]byte(framesName(stem(id), 7)))
	high := binary.LittleEndian.AppendUint32(append([]byte(nil), id.Topic[:]...), uint32(id.Partition))
	high = binary.LittleEndian.AppendUint64(high, 6)
	f.Add(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(high, 2), 1))
	f.Add(make([]byte, 2*scrubEntry))
	f.Add((&producers.State{}).Append(make([]byte, 8), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		disk := vfs.Memory()
		must(t, disk.MkdirAll("d/journal"))
		d := &Dir{path: "d", opt: &Options{FS: disk}}
		fuzzIdentity(t, disk, b)
		fuzzNames(t, disk, b)
		fuzzScrubbed(t, d, b)
		fuzzHigh(t, d, id, b)
		fuzzProducers(t, d, b)
		fuzzMove(t, d, b)
	})
}

func fuzzIdentity(t *testing.T, disk vfs.FS, b []byte) {
	loc := Location{Path: "d"}
	name, kind := loc.identity(true)
	must(t, statefile.Write(disk, name, kind, identityVersion, b))
	got, err := ReadIdentity(disk, loc, true)
	if err != nil {
		return
	}
	must(t, writeIdentity(disk, loc, got, true))
	if again, err := ReadIdentity(disk, loc, true); err != nil || again != got {
		t.Errorf("%x became %x, %v", got, again, err)
	}
}

func fuzzMove(t *testing.T, d *Dir, b []byte) {
	must(t, d.opt.FS.MkdirAll("d/t-0"))
	must(t, statefile.Write(d.opt.FS, "d/t-0/"+MoveFile, moveKind, moveVersion, b))
	from, e, err := d.readMove("t-0")
	if err != nil {
		return
	}
	must(t, d.writeMove("t-0", from, e))
	if f, again, err := d.readMove("t-0"); err != nil || f != from || !bytes.Equal(again.Encode(), e.Encode()) {
		t.Errorf("%+v became %+v, %v", e, again, err)
	}
}

func fuzzNames(t *testing.T, disk vfs.FS, b []byte) {
	must(t, vfs.WriteFile(disk, "d/"+PartitionFile, b, false))
	if topic := TopicIn(disk, "d"); topic != [16]byte{} {
		id := ID{Topic: topic}
		must(t, vfs.WriteFile(disk, "d/"+PartitionFile, partitionMetaOf(id), false))
		own, err := Belongs(disk, "d", id)
		if again := TopicIn(disk, "d"); again != topic || !own || err != nil {
			t.Errorf("topic %x became %x", topic, again)
		}
	}
	name := string(b)
	if id, ok := framesOf(name); ok && (path.Base(name) != name || id.Partition < 0) {
		t.Errorf("%q is of %+v", name, id)
	}
}

func fuzzScrubbed(t *testing.T, d *Dir, b []byte) {
	must(t, statefile.Write(d.opt.FS, "d/"+ScrubFile, scrubKind, scrubVersion, b))
	d.loadScrubbed()
	n := len(d.scrubbing.logs)
	if n > len(b)/scrubEntry || n == 0 && len(b) >= scrubEntry {
		t.Errorf("%d bytes hold %d logs", len(b), n)
	}
	d.scrubbing.dirty = true
	d.saveScrubbed()
	if d.loadScrubbed(); len(d.scrubbing.logs) != n {
		t.Errorf("%d logs became %d", n, len(d.scrubbing.logs))
	}
}

// A saved high watermark counts only if it is above the checkpoint's, the log has these records,
// and the last of them is the one that was committed.
func fuzzHigh(t *testing.T, d *Dir, id ID, b []byte) {
	must(t, statefile.Write(d.opt.FS, "d/"+HighFile, highKind, highVersion, b))
	l := &Log{dir: d, id: id, storedHigh: recoveredHigh{offset: 2}}
	l.logEnd.Store(10)
	l.epochs.Assign(1, 0)
	r := &recovery{d: d, found: map[ID]*found{id: {l: l}}}
	r.loadHigh()
	if at := l.storedHigh.offset; at < 2 || at > 10 {
		t.Errorf("the high watermark of a log with records in [0, 10) became %d", at)
	}
}

func fuzzProducers(t *testing.T, d *Dir, b []byte) {
	s, err := segment.Create(segment.NewFiles(d.opt.FS, 1), "d", 0, 0)
	must(t, err)
	l := &Log{dir: d}
	must(t, statefile.WriteCache(d.opt.FS, s.ProducersPath(), producersKind, producersVersion, b))
	if _, err := l.loadProducers(s); err == nil && (len(b) < 8 || binary.LittleEndian.Uint64(b) != 0) {
		t.Errorf("the state of another segment is accepted: %x", b)
	}
}
