package inspect

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Donor is an index of files that dumps of other replicas have written with DumpOptions.Batches:
// one Item of a batch in each line. A repair restores from them what a log lacks. A nil
// Donor is empty. It uses about 100 bytes of memory for each batch, and twice the longest line.
type Donor struct {
	fs    vfs.FS
	files []string
	logs  map[storage.ID][]donated // in the order of their offsets
}

// donated is a batch in a file, with the offsets [first, next).
type donated struct {
	first, next int64
	compacted   int64 // to where the replica was compacted
	pos, size   int64 // of the line
	file        int32
	epoch       int32
	whole       bool // no compaction has removed records from it
}

// ErrDonor means that a file is not what a dump for a repair writes, or that it has changed since
// it was indexed.
var ErrDonor = errors.New("it is not what log dump --for-repair writes")

// ReadDonor reads the files, and checks each batch. An error names the file and, if a line is
// wrong, the line; then it matches ErrDonor.
func ReadDonor(fsys vfs.FS, names []string) (*Donor, error) {
	s := &Donor{fs: fsys, files: names, logs: map[storage.ID][]donated{}}
	for i, name := range names {
		if err := s.index(int32(i), name); err != nil {
			return nil, err
		}
	}
	for _, list := range s.logs { // of two replicas, one may have compacted a batch
		sorts.SortStable(list, func(a, b donated) int {
			if a.first == b.first && a.whole != b.whole {
				return map[bool]int{true: -1, false: 1}[a.whole]
			}
			return cmp.Compare(a.first, b.first)
		})
	}
	return s, nil
}

// index adds the lines of a file.
func (s *Donor) index(file int32, name string) error {
	f, err := s.fs.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), int(min(size, copyStep)))
	pos := int64(0)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", name, err)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			id, p, _, fault := parseDonated(text)
			if fault != nil {
				return fmt.Errorf("%s: line %d: %w", name, n, fault)
			}
			p.file, p.pos, p.size = file, pos, int64(len(line))
			s.logs[id] = append(s.logs[id], p)
		}
		if pos += int64(len(line)); err != nil {
			return nil
		}
	}
}

// parseDonated parses a line. The leader epoch and the offsets of a batch, which its checksum does
// not cover, must be those that the dump has noted.
func parseDonated(line []byte) (id storage.ID, p donated, b record.Batch, err error) {
	fault := func(what string) (storage.ID, donated, record.Batch, error) {
		return id, p, nil, fmt.Errorf("%w: %s", ErrDonor, what)
	}
	var it Item
	if err := json.Unmarshal(line, &it); err != nil {
		return fault(err.Error())
	}
	topic, err := base64.RawURLEncoding.DecodeString(it.TopicID)
	switch {
	case it.What != "batch" || it.Batch == nil || it.Partition == nil || it.Offset == nil || it.Next == nil:
		return fault("it has no batch")
	case err != nil || len(topic) != len(id.Topic):
		return fault("it has no topic id")
	}
	id = storage.ID{Topic: [16]byte(topic), Partition: *it.Partition}
	p.first, p.next, p.epoch, p.compacted = *it.Offset, *it.Next, it.Batch.Epoch, it.Batch.CompactedTo
	b, rest, err := record.Next(it.Batch.Content)
	if err != nil || len(rest) > 0 || b.CheckCRC() != nil {
		return fault("the batch does not match its checksum")
	}
	p.whole = int64(b.Records()) == p.next-p.first
	if p.first < 0 || p.next <= p.first || b.BaseOffset() != p.first || b.LastOffset() != p.next-1 || b.LeaderEpoch() != p.epoch {
		return fault("the batch has other offsets, or another leader epoch")
	}
	return id, p, b, nil
}

// read reads a batch that was indexed, and checks it again.
func (s *Donor) read(p donated) (record.Batch, error) {
	name := s.files[p.file]
	f, err := s.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	line := make([]byte, p.size)
	if _, err := f.ReadAt(line, p.pos); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	_, now, b, err := parseDonated(bytes.TrimSpace(line))
	if now.file, now.pos, now.size = p.file, p.pos, p.size; err == nil && now != p {
		err = fmt.Errorf("%w: it has changed since it was read", ErrDonor)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: position %d: %w", name, p.pos, err)
	}
	return b, nil
}

// Unused returns the files of Options.Restore of which nothing is restored.
func (r *Inspection) Unused() []string {
	var donor *Donor
	used := map[int32]bool{}
	for _, d := range r.dirs {
		donor = d.opt.Restore
		for _, l := range d.logs {
			for _, list := range l.restored {
				for _, p := range list {
					used[p.file] = true
				}
			}
		}
	}
	if donor == nil {
		return nil
	}
	var names []string
	for i, name := range donor.files {
		if !used[int32(i)] {
			names = append(names, name)
		}
	}
	return names
}

// extent is a range of offsets, [from, next).
type extent struct{ from, next int64 }

// fit returns the batches that belong into [from, to) of a log, and the offsets there that they may
// lack.
//
// A batch belongs there if it lies in the range and has the leader epoch that the log has at its
// offsets. One leader wrote an epoch, and gave each offset once: so the log had the same records.
//
// A compaction removes records, and later also the tombstones and abort markers that followed them.
// So a log that was compacted may have removed a record that another replica still has, and all
// that says so: it would be back. There, only batches count of a replica that was compacted as far.
// Of each key, these have the last record, or one that others follow in the log.
//
// Where only the other replica was compacted, a batch from which records were removed is restored,
// and counts as missing: a tombstone may have been among them. So do offsets without a batch: a
// compaction has removed them, or a repair has lost them.
func (s *Donor) fit(l *log, from, to int64) (list []donated, missing []extent) {
	at := from
	lack := func(end int64) {
		if n := len(missing); n > 0 && missing[n-1].next == at {
			missing[n-1].next = end
		} else if at < end {
			missing = append(missing, extent{at, end})
		}
	}
	if s != nil {
		all, epochs, compacted := s.logs[l.st.ID], &l.st.Epochs, l.st.Clean
		i, _ := slices.BinarySearchFunc(all, from, func(p donated, at int64) int { return cmp.Compare(p.first, at) })
		for _, p := range all[i:] {
			if p.first >= to {
				break
			}
			same := p.epoch >= 0 && epochs.At(p.first) == p.epoch && epochs.At(p.next-1) == p.epoch
			there := p.first >= compacted || p.compacted >= compacted
			if !same || !there || p.first < at || p.next > to {
				continue
			}
			lack(p.first)
			list, at = append(list, p), p.first
			if !p.whole && p.next > compacted {
				lack(p.next)
			}
			at = p.next
		}
	}
	lack(to)
	return list, missing
}
