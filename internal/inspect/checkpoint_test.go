package inspect_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/storage"
)

// checkpointFile returns the newest file of the checkpoint with a suffix.
func (s *site) checkpointFile(dir, suffix string) string {
	infos, err := s.fs.List(path.Join(root, dir))
	s.must(err)
	for _, in := range slices.Backward(infos) {
		if strings.HasSuffix(in.Name, suffix) {
			return path.Join(dir, in.Name)
		}
	}
	s.Fatalf("%s has no %s", dir, suffix)
	return ""
}

func plantsOfCheckpoints() []plant {
	const dir, spare = storage.CheckpointDir, storage.CheckpointMirror
	snapshot := func(s *site, dir string) string { return s.checkpointFile(dir, ".snapshot") }
	log := func(s *site, dir string) string { return s.checkpointFile(dir, ".log") }
	return []plant{
		{name: "checkpoint gone", kind: inspect.CheckpointMissing, do: func(s *site) { s.remove(dir) }},
		{name: "snapshot of the checkpoint gone", kind: inspect.CheckpointMissing, do: func(s *site) { s.remove(snapshot(s, dir)) }},
		{name: "log of the checkpoint gone", kind: inspect.CheckpointMissing, do: func(s *site) { s.remove(log(s, dir)) }},
		{name: "snapshot of the checkpoint flipped", kind: inspect.CheckpointDamaged, do: func(s *site) { s.flip(snapshot(s, dir), 100) }},
		{name: "snapshot of the checkpoint cut", kind: inspect.CheckpointDamaged, do: func(s *site) { s.truncate(snapshot(s, dir), -1) }},
		{name: "log of the checkpoint flipped", kind: inspect.CheckpointDamaged, do: func(s *site) { s.flip(log(s, dir), 100) }},
		{name: "header of the checkpoint's log flipped", kind: inspect.CheckpointDamaged, do: func(s *site) { s.flip(log(s, dir), 20) }},
		{name: "checkpoint of a later version", kind: inspect.FormatNewer, stays: true, do: func(s *site) {
			name := s.at(snapshot(s, dir))
			h := read(s, s.fs, name)[:48]
			h[10]++
			binary.LittleEndian.PutUint32(h[44:], crc32.Checksum(h[:44], crc32.MakeTable(crc32.Castagnoli)))
			s.write(name, 0, h)
			s.file = root
		}},
		{name: "checkpoint and identity gone", kind: inspect.CheckpointMissing, also: []inspect.Kind{inspect.IdentityMissing},
			do: func(s *site) {
				s.remove("chronik.dir")
				s.remove(dir)
			}},
		{name: "checkpoint and its copy gone", kind: inspect.CheckpointMissing, stays: true, do: func(s *site) {
			s.remove(spare)
			s.remove(dir)
		}},
		{name: "checkpoint and its copy flipped", kind: inspect.CheckpointDamaged, stays: true, do: func(s *site) {
			s.flip(snapshot(s, spare), -1)
			s.flip(snapshot(s, dir), 100)
		}},
		{name: "checkpoint and a file of the journal gone", kind: inspect.CheckpointMissing,
			also: []inspect.Kind{inspect.JournalFileMissing}, stays: true, do: func(s *site) {
				s.remove(fmt.Sprintf("journal/%020d.journal", s.state().Redo.File))
				s.remove(dir)
			}},
		{name: "copy of the checkpoint gone", kind: inspect.CheckpointCopy, do: func(s *site) { s.remove(spare) }},
		{name: "snapshot of the copy flipped", kind: inspect.CheckpointCopy, do: func(s *site) { s.flip(snapshot(s, spare), 100) }},
		{name: "log of the copy gone", kind: inspect.CheckpointCopy, do: func(s *site) { s.remove(log(s, spare)) }},
	}
}
