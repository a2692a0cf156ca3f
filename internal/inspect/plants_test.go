package inspect_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// plant is one kind of damage that a test plants in a used directory.
type plant struct {
	name string
	kind inspect.Kind
	do   func(*site)
	// also lists the kinds that come with it.
	also []inspect.Kind
	// stays: no repair helps; the finding says what to restore.
	stays bool
}

// site is the directory in which damage is planted, and its expected findings.
type site struct {
	testing.TB
	fs    *crashfs.FS
	file  string // that the finding must name
	topic string
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// at sets the file that must be reported, below the directory.
func (s *site) at(name string) string {
	s.file = path.Join(root, name)
	return s.file
}

func (s *site) remove(name string) { s.must(s.fs.RemoveAll(s.at(name))) }

func (s *site) write(name string, off int64, p []byte) {
	f, err := s.fs.Open(name)
	s.must(err)
	_, err = f.WriteAt(p, off)
	s.must(err)
	s.must(f.Close())
}

func (s *site) flip(name string, off int64) {
	b := read(s, s.fs, s.at(name))
	if off < 0 {
		off += int64(len(b))
	}
	s.write(s.file, off, []byte{b[off] ^ 0x10})
}

func (s *site) make(name string, p []byte) {
	f, err := s.fs.Create(s.at(name))
	s.must(err)
	_, err = f.WriteAt(p, 0)
	s.must(err)
	s.must(f.Close())
}

func (s *site) truncate(name string, size int64) {
	f, err := s.fs.Open(s.at(name))
	s.must(err)
	if size < 0 {
		n, err := f.Size()
		s.must(err)
		size += n
	}
	s.must(f.Truncate(size))
	s.must(f.Close())
}

func (s *site) state() *checkpoint.State {
	st, err := storage.ReadState(s.fs, root)
	s.must(err)
	return st
}

// edit changes the checkpoint's entry of a topic.
func (s *site) edit(topic string, change func(st *checkpoint.State, l *checkpoint.Log)) {
	s.topic = topic
	st := s.state()
	i := slices.IndexFunc(st.Logs, func(l checkpoint.Log) bool { return l.Topic == topic })
	change(st, &st.Logs[i])
	b, err := storage.OpenForRepair(location, options(s.fs))
	s.must(err)
	s.must(b.Commit(st))
	s.must(b.Close())
}

func (s *site) identity(name, kind string, dir, jour byte) {
	st := s.state()
	id := storage.Identity{Dir: st.Dir, Journal: st.Journal}
	if dir != 0 {
		id.Dir = [16]byte{15: dir}
	}
	if jour != 0 {
		id.Journal = [16]byte{15: jour}
	}
	s.must(statefile.Write(s.fs, s.at(name), kind, 1, fmt.Appendf(nil, "directory %x\njournal %x\n", id.Dir, id.Journal)))
}

// frame returns a frame that a start needs.
type frame struct {
	file string
	seq  uint64
	at   journal.FrameAt
}

// frames returns the frames that count, in order.
func (s *site) frames() (all []frame) {
	st := s.state()
	files, err := journal.Files(s.fs, root+"/journal", st.Redo.File)
	s.must(err)
	for _, in := range files {
		_, err := journal.Walk(s.fs, root+"/journal", in.Seq, func(f journal.FrameAt) error {
			if f.LSN >= st.Redo.LSN {
				all = append(all, frame{"journal/" + in.Name, in.Seq, f})
			}
			return nil
		})
		s.must(err)
	}
	return all
}

// live returns the journal files with frames that count.
func (s *site) live() (names []string) {
	for _, f := range s.frames() {
		if !slices.Contains(names, f.file) {
			names = append(names, f.file)
		}
	}
	if len(names) < 3 {
		s.Fatalf("the journal has frames in %d files only", len(names))
	}
	return names
}

// headers changes both copies of a file's header and their checksums.
func (s *site) headers(name string, change func(b []byte)) {
	for _, at := range []int64{0, 4096} {
		b := read(s, s.fs, s.at(name))[at : at+512]
		change(b)
		binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:72], crc32.MakeTable(crc32.Castagnoli)))
		s.write(s.file, at, b)
	}
}

// batch returns the n'th batch of a file and its position.
func (s *site) batch(name string, n int) (record.Batch, int64) {
	b, at := read(s, s.fs, path.Join(root, name)), int64(0)
	for {
		x, rest, err := record.Next(b)
		s.must(err)
		if n == 0 {
			return x, at
		}
		n, at, b = n-1, at+int64(len(x)), rest
	}
}

func (s *site) base(name string, n int, add int64) {
	b, at := s.batch(name, n)
	s.write(s.at(name), at, binary.BigEndian.AppendUint64(nil, uint64(b.BaseOffset()+add)))
}

const (
	first  = "a-0/00000000000000000000.log"
	second = "a-0/00000000000000000038.log"
	last   = "a-0/00000000000000000080.log"
)

func plants() []plant {
	return slices.Concat(plantsOfCheckpoints(), plantsOfDirectories(), plantsOfJournals(), plantsOfLogs(), plantsOfSegments())
}

// eachPlant calls fn in a subtest for each kind of damage, with a used directory that has it. whole
// holds every batch from before the damage.
func eachPlant(t *testing.T, fn func(t *testing.T, p plant, s *site, whole map[string]map[int64][]byte)) {
	image := used(t)
	whole := content(t, opened(t, image.KillImage(9)))
	for i, p := range plants() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := &site{TB: t, fs: image.KillImage(uint64(100 + i))}
			p.do(s)
			fn(t, p, s, whole)
		})
	}
}

func plantsOfDirectories() []plant {
	return []plant{
		{name: "identity gone", kind: inspect.IdentityMissing, do: func(s *site) { s.remove("chronik.dir") }},
		{name: "identity flipped", kind: inspect.IdentityDamaged, do: func(s *site) { s.flip("chronik.dir", -5) }},
		{name: "identity of a later version", kind: inspect.FormatNewer, stays: true, do: func(s *site) {
			s.must(statefile.Write(s.fs, root+"/chronik.dir", "directory", 9, []byte("{}")))
			s.file = root
		}},
		{name: "checkpoint of another directory", kind: inspect.CheckpointForeign, stays: true, do: func(s *site) {
			s.identity("journal/chronik.journal", "journal", 9, 9)
			s.identity("chronik.dir", "directory", 9, 9)
			s.at("checkpoint")
		}},
		{name: "unfinished state file", kind: inspect.Leftover, do: func(s *site) { s.make("chronik.dir.tmp", []byte("half")) }},
		{name: "stray directory", kind: inspect.PartitionStray, stays: true, do: func(s *site) {
			s.must(s.fs.MkdirAll(root + "/x-0"))
			s.make("x-0/partition.metadata", []byte("version: 0\n"))
			s.make("x-0/00000000000000000000.log", []byte("records"))
			s.at("x-0")
		}},
	}
}

func plantsOfJournals() []plant {
	return []plant{
		{name: "journal identity gone", kind: inspect.JournalIdentityMissing, do: func(s *site) { s.remove("journal/chronik.journal") }},
		{name: "journal identity flipped", kind: inspect.JournalIdentityDamaged,
			do: func(s *site) { s.flip("journal/chronik.journal", -5) }},
		{name: "another directory's journal", kind: inspect.JournalForeign, stays: true,
			do: func(s *site) { s.identity("journal/chronik.journal", "journal", 9, 9) }},
		{name: "half replaced", kind: inspect.JournalHalfReplaced,
			do: func(s *site) { s.identity("journal/chronik.journal", "journal", 0, 9) }},
		{name: "journal gone", kind: inspect.JournalMissing, do: func(s *site) { s.remove("journal") }},
		{name: "journal files gone", kind: inspect.JournalMissing, do: func(s *site) {
			infos, err := s.fs.List(root + "/journal")
			s.must(err)
			for _, in := range infos {
				if in.Name != storage.JournalIdentityFile {
					s.remove("journal/" + in.Name)
				}
			}
			s.at("journal")
		}},
		{name: "first file gone", kind: inspect.JournalFileMissing, do: func(s *site) { s.remove(s.live()[0]) }},
		{name: "file in the middle gone", kind: inspect.JournalFileMissing, do: func(s *site) {
			live := s.live()
			s.remove(live[1])
			s.at(live[2])
		}},
		{name: "foreign file in the middle", kind: inspect.JournalFileForeign,
			do: func(s *site) { s.headers(s.live()[1], func(b []byte) { b[40] ^= 1 }) }},
		{name: "foreign file at the end", kind: inspect.JournalFileForeign, do: func(s *site) {
			live := s.live()
			s.headers(live[len(live)-1], func(b []byte) { b[40] ^= 1 })
		}},
		{name: "file of a later version", kind: inspect.FormatNewer, stays: true,
			do: func(s *site) { s.headers(s.live()[1], func(b []byte) { b[8] = 9 }) }},
		{name: "one header", kind: inspect.JournalHeaderCopy, do: func(s *site) { s.flip(s.live()[0], 20) }},
		{name: "both headers of the first file", kind: inspect.JournalHeaderLost, do: func(s *site) {
			name := s.live()[0]
			s.flip(name, 20)
			s.flip(name, 4096+20)
		}},
		{name: "both headers in the middle", kind: inspect.JournalHeaderLost, do: func(s *site) {
			name := s.live()[1]
			s.flip(name, 20)
			s.flip(name, 4096+20)
		}},
		{name: "both headers of the last file", kind: inspect.JournalHeaderLost, do: func(s *site) {
			live := s.live()
			name := live[len(live)-1]
			s.flip(name, 20)
			s.flip(name, 4096+20)
		}},
		{name: "frame flipped", kind: inspect.JournalFrameDamaged, do: func(s *site) {
			f := s.frames()[30]
			s.flip(f.file, f.at.Pos+120)
		}},
		{name: "header of a frame overwritten", kind: inspect.JournalFrameDamaged, do: func(s *site) {
			f := s.frames()[30]
			s.write(s.at(f.file), f.at.Pos, make([]byte, 80))
		}},
		{name: "first frame flipped", kind: inspect.JournalFrameDamaged, do: func(s *site) {
			f := s.frames()[0]
			s.flip(f.file, f.at.Pos+120)
		}},
		{name: "last frame of a file flipped", kind: inspect.JournalFrameDamaged, do: func(s *site) {
			all, live := s.frames(), s.live()
			i := slices.IndexFunc(all, func(f frame) bool { return f.file == live[1] }) - 1
			s.flip(all[i].file, all[i].at.Pos+120)
		}},
		{name: "a kilobyte of zeros", kind: inspect.JournalFrameDamaged, do: func(s *site) {
			f := s.frames()[50]
			s.write(s.at(f.file), f.at.Pos, make([]byte, 1024))
		}},
		{name: "torn end", kind: inspect.JournalTorn, do: func(s *site) {
			all := s.frames()
			f := all[len(all)-1]
			b := slices.Clone(read(s, s.fs, s.at(f.file))[f.at.Pos : f.at.Pos+300])
			binary.LittleEndian.PutUint64(b[24:], uint64(f.at.LSN+1))
			s.write(s.file, (f.at.Pos+80+int64(len(f.at.Payload))+vfs.DirectBlock-1)&^(vfs.DirectBlock-1), b)
		}},
		{name: "older copy", kind: inspect.JournalOlder, do: func(s *site) {
			all := s.frames()
			s.edit("a", func(st *checkpoint.State, _ *checkpoint.Log) { st.Durable = all[len(all)-1].at.LSN })
			for _, f := range all[len(all)-10:] {
				s.write(s.at(f.file), f.at.Pos, make([]byte, 512))
			}
			s.at("journal")
			s.topic = ""
		}},
		{name: "frames of nobody", kind: inspect.FramesUnknown, stays: true, also: []inspect.Kind{inspect.PartitionStray},
			do: func(s *site) {
				s.edit("journalonly", func(st *checkpoint.State, l *checkpoint.Log) {
					st.Logs = slices.DeleteFunc(st.Logs, func(x checkpoint.Log) bool { return x.Topic == "journalonly" })
				})
				s.at("journal")
				s.topic = ""
			}},
	}
}

// quarantine copies the frames of a topic to a quarantine file, as a start does.
func (s *site) quarantine(topic, name string) {
	st := s.state()
	var b []byte
	for i := range st.Logs {
		for _, f := range s.frames() {
			if l := &st.Logs[i]; l.Topic == topic && f.at.Stream == l.ID && f.at.LSN > l.LSN {
				b = f.at.Encode(b)
			}
		}
	}
	s.make(name, b)
}

func plantsOfLogs() []plant {
	none := func(l *checkpoint.Log) { l.LSN = 1 << 62 } // the journal's frames do not count
	return []plant{
		{name: "producers undecodable", kind: inspect.ProducersDamaged, do: func(s *site) {
			s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Producers = []byte{1, 2} })
			s.at("checkpoint")
		}},
		{name: "a frame that is not there", kind: inspect.FramesGap, do: func(s *site) {
			s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) {
				for _, f := range s.frames() {
					if f.at.Stream == l.ID && f.at.LSN > l.LSN {
						l.LSN = f.at.LSN
						break
					}
				}
			})
			s.at("journal")
		}},
		{name: "kept frames gone", kind: inspect.FramesKeptMissing, do: func(s *site) {
			s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.QuarantineFile = "a-0-3.frames"; none(l) })
			s.at("a-0-3.frames")
		}},
		{name: "kept frames flipped", kind: inspect.FramesKeptDamaged, do: func(s *site) {
			s.quarantine("a", "a-0-3.frames")
			s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.QuarantineFile = "a-0-3.frames"; none(l) })
			s.flip("a-0-3.frames", 3000)
		}},
		{name: "offline with kept frames", kind: inspect.LogOffline, also: []inspect.Kind{inspect.FramesKept}, do: func(s *site) {
			s.quarantine("a", "a-0/recovery-3.frames")
			s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Offline = "a segment was missing"; l.LSN = 1<<63 - 1 })
			s.at("a-0")
		}},
		{name: "kept frames of nobody", kind: inspect.FramesKept, stays: true, do: func(s *site) {
			s.quarantine("a", "unknown-0a-0-3.frames")
			s.topic = "a"
		}},
		{name: "kept frames that were never written", kind: inspect.Leftover,
			do: func(s *site) { s.make("unknown-0a-0-3.frames", nil) }},
		{name: "partition gone", kind: inspect.PartitionMissing, do: func(s *site) { s.remove("a-0"); s.topic = "a" }},
		{name: "partition id gone", kind: inspect.PartitionIDMissing,
			do: func(s *site) { s.remove("a-0/partition.metadata"); s.topic = "a" }},
		{name: "partition id of another", kind: inspect.PartitionIDWrong,
			do: func(s *site) { s.flip("a-0/partition.metadata", 30); s.topic = "a" }},
		{name: "swap under way", kind: inspect.SwapUnfinished, do: func(s *site) {
			s.must(s.fs.Rename(root+"/a-0/00000000000000000038.log", s.at("a-0/00000000000000000038.log.swap")))
			s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Swapping, l.Swap = true, 38 })
		}},
	}
}

func plantsOfSegments() []plant {
	on := func(name string, do func(*site)) func(*site) {
		return func(s *site) {
			s.topic = "a"
			do(s)
			s.at(name)
		}
	}
	return []plant{
		{name: "first segment gone", kind: inspect.SegmentMissing, do: on(first, func(s *site) { s.remove(first) })},
		{name: "segment in the middle gone", kind: inspect.SegmentMissing, do: on(second, func(s *site) { s.remove(second) })},
		{name: "last segment gone", kind: inspect.SegmentMissing, do: on(last, func(s *site) { s.remove(last) })},
		{name: "segment in the middle short", kind: inspect.SegmentShort, do: on(second, func(s *site) { s.truncate(second, -1000) })},
		{name: "last segment short", kind: inspect.SegmentShort, do: on(last, func(s *site) { s.truncate(last, 5000) })},
		{name: "segment emptied", kind: inspect.SegmentShort, do: on(second, func(s *site) { s.truncate(second, 0) })},
		{name: "garbage behind a segment", kind: inspect.SegmentTail,
			do: on(last, func(s *site) { s.write(s.at(last), int64(len(read(s, s.fs, s.file))), []byte("garbage")) })},
		{name: "segment that nobody lists", kind: inspect.SegmentUnlisted,
			do: func(s *site) { s.topic = "a"; s.make("a-0/00000000000000000007.log", []byte("x")) }},
		{name: "segment removed half", kind: inspect.Leftover,
			do: func(s *site) { s.topic = "a"; s.make("a-0/00000000000000000007.log.deleted", []byte("x")) }},
		{name: "bit in the middle", kind: inspect.BatchDamaged, do: on(second, func(s *site) { s.flip(second, 2000) })},
		{name: "bit in the first segment", kind: inspect.BatchDamaged, do: on(first, func(s *site) { s.flip(first, 100) })},
		{name: "bit in the last batch", kind: inspect.BatchDamaged, do: on(last, func(s *site) { s.flip(last, -10) })},
		{name: "length of a batch", kind: inspect.BatchDamaged, do: on(second, func(s *site) {
			_, at := s.batch(second, 5)
			s.flip(second, at+10)
		})},
		{name: "sectors of zeros", kind: inspect.BatchDamaged,
			do: on(second, func(s *site) { s.write(s.at(second), 1024, make([]byte, 1536)) })},
		{name: "offset too high", kind: inspect.BatchOffset, do: on(second, func(s *site) { s.base(second, 4, 16) })},
		{name: "offset far too high", kind: inspect.BatchOffset, do: on(second, func(s *site) { s.base(second, 4, 1<<40) })},
		{name: "offset too low", kind: inspect.BatchOffset, do: on(second, func(s *site) { s.base(second, 4, -32) })},
		{name: "offset of the last batch", kind: inspect.BatchOffset, do: on(last, func(s *site) { s.base(last, 19, 64) })},
		{name: "leader epoch", kind: inspect.BatchEpoch, do: on(second, func(s *site) {
			_, at := s.batch(second, 4)
			s.flip(second, at+15)
		})},
		{name: "index gone", kind: inspect.IndexMissing, do: func(s *site) { s.topic = "a"; s.remove("a-0/00000000000000000038.index") }},
		{name: "time index gone", kind: inspect.IndexMissing,
			do: func(s *site) { s.topic = "a"; s.remove("a-0/00000000000000000038.timeindex") }},
		{name: "index wrong", kind: inspect.IndexDamaged,
			do: func(s *site) { s.topic = "a"; s.flip("a-0/00000000000000000038.index", 23) }},
		{name: "half an entry", kind: inspect.IndexDamaged,
			do: func(s *site) { s.topic = "a"; s.truncate("a-0/00000000000000000038.index", -3) }},
		{name: "time index wrong", kind: inspect.IndexDamaged,
			do: func(s *site) { s.topic = "a"; s.flip("a-0/00000000000000000038.timeindex", 5) }},
	}
}

var _ vfs.FS = (*crashfs.FS)(nil)
