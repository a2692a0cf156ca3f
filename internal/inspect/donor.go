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

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Donor is an index of files that dumps of other replicas have written with DumpOptions.Batches:
// one Item of a batch or of a gap in each line. A repair restores from them what a log lacks. A nil
// Donor is empty. It uses about 80 bytes of memory for each batch.
type Donor struct {
	fs   vfs.FS
	logs map[storage.ID][]donated // in the order of their offsets
}

// donated is a batch or a gap in a file, with the offsets [first, next).
type donated struct {
	first, next int64
	epoch       int32 // of the batch, or of the one after the gap
	gap         bool
	file        string
	pos         int64 // of the line
	size        int
}

// ErrDonor means that a file is not what a dump for a repair writes, or that it has changed since
// it was indexed.
var ErrDonor = errors.New("it is not what log dump --for-repair writes")

// ReadDonor reads the files, and checks each batch. An error names the file and, if a line is
// wrong, the line; then it matches ErrDonor.
func ReadDonor(fsys vfs.FS, names []string) (*Donor, error) {
	s := &Donor{fs: fsys, logs: map[storage.ID][]donated{}}
	for _, name := range names {
		if err := s.index(name); err != nil {
			return nil, err
		}
	}
	for _, list := range s.logs {
		sorts.Sort(list, func(a, b donated) int { return cmp.Compare(a.first, b.first) })
	}
	return s, nil
}

// index adds the lines of a file.
func (s *Donor) index(name string) error {
	f, err := s.fs.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), copyStep)
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
			p.file, p.pos, p.size = name, pos, len(line)
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
	p.gap = it.What == "gap"
	topic, err := base64.RawURLEncoding.DecodeString(it.TopicID)
	switch {
	case !p.gap && it.What != "batch" || it.Batch == nil || it.Partition == nil || it.Offset == nil || it.Next == nil:
		return fault("it has no batch")
	case err != nil || len(topic) != len(id.Topic):
		return fault("it has no topic id")
	}
	id = storage.ID{Topic: [16]byte(topic), Partition: *it.Partition}
	p.first, p.next, p.epoch = *it.Offset, *it.Next, it.Batch.Epoch
	if p.first < 0 || p.next <= p.first {
		return fault("its offsets are not in order")
	}
	if p.gap {
		return id, p, nil, nil
	}
	b, rest, err := record.Next(it.Batch.Content)
	if err != nil || len(rest) > 0 || b.CheckCRC() != nil {
		return fault("the batch does not match its checksum")
	}
	if b.BaseOffset() != p.first || b.LastOffset() != p.next-1 || b.LeaderEpoch() != p.epoch {
		return fault("the batch has other offsets, or another leader epoch")
	}
	return id, p, b, nil
}

// read returns the batch of a donated.
func (s *Donor) read(p donated) (record.Batch, error) {
	f, err := s.fs.Open(p.file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	line := make([]byte, p.size)
	if _, err := f.ReadAt(line, p.pos); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", p.file, err)
	}
	_, now, b, err := parseDonated(bytes.TrimSpace(line))
	if now.file, now.pos, now.size = p.file, p.pos, p.size; err == nil && now != p {
		err = fmt.Errorf("%w: it has changed since it was read", ErrDonor)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: position %d: %w", p.file, p.pos, err)
	}
	return b, nil
}

// has reports whether there are batches of a log.
func (s *Donor) has(id storage.ID) bool { return s != nil && len(s.logs[id]) > 0 }

// extent is a range of offsets, [from, next).
type extent struct{ from, next int64 }

// fit returns the batches that belong into [from, to) of a log, and the offsets there that neither
// they nor gaps account for.
//
// A batch belongs there if it lies in the range and has the leader epoch that the log has at its
// offsets. One leader wrote an epoch, and gave each offset once: so the log had the same records. A
// gap counts likewise. The batches of two replicas overlap in part only if both were compacted; of
// these, the first one is taken.
func (s *Donor) fit(l *log, from, to int64) (pieces []donated, missing []extent) {
	at := from
	var known []extent
	if s != nil {
		epochs := &l.st.Epochs
		for _, p := range s.logs[l.st.ID] {
			same := p.epoch >= 0 && epochs.At(p.first) == p.epoch && epochs.At(p.next-1) == p.epoch
			switch {
			case !same || p.next <= from || p.first >= to:
			case p.gap:
				known = append(known, extent{p.first, p.next})
			case p.first >= at && p.next <= to:
				pieces = append(pieces, p)
				known = append(known, extent{p.first, p.next})
				at = p.next
			}
		}
	}
	sorts.Sort(known, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	at = from
	for _, k := range append(known, extent{to, to}) {
		if k.from > at {
			missing = append(missing, extent{at, k.from})
		}
		at = max(at, k.next)
	}
	return pieces, missing
}
