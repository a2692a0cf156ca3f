package inspect

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/vfs"
)

// DumpOptions select what Dump shows.
type DumpOptions struct {
	Checkpoint, Journal, Segments bool
	// Topic and Partition select the logs; "" and -1 select all.
	Topic     string
	Partition int32
	// From and To bound the offsets [From, To) of frames and batches; To <= 0 means no bound.
	From, To int64
	// Records selects the records of batches and frames.
	Records bool
	// Batches selects the content of batches, also of those in frames.
	Batches bool
	// Replaced selects the segments of logs that were replaced, and nothing else.
	Replaced bool
}

func (o *DumpOptions) wants(topic string, partition int32) bool {
	return (o.Topic == "" || o.Topic == topic) && (o.Partition < 0 || o.Partition == partition)
}

// everything reports whether no log and no offset is excluded.
func (o *DumpOptions) everything() bool {
	return o.Topic == "" && o.Partition < 0 && o.From <= 0 && o.To <= 0
}

func (o *DumpOptions) within(from, to int64) bool {
	return to > o.From && (o.To <= 0 || from < o.To)
}

// Dump shows the contents of the directories in the order of the files, and changes nothing. It may
// run next to a broker; files that change in the meantime may look damaged.
func Dump(ctx context.Context, opt Options, o DumpOptions, emit func(*Item) error) error {
	opt.FS = vfs.ReadOnly(opt.FS)
	topics := map[[16]byte]string{}
	if o.Replaced { // other directories have the names of their topics
		topics = topicNames(opt)
	}
	for _, location := range opt.Locations {
		location.Path = path.Clean(location.Path)
		d := &dumper{ctx: ctx, fs: opt.FS, location: location, o: o, emit: emit, byID: map[storage.ID]*checkpoint.Log{}, topics: topics}
		if err := d.run(); err != nil {
			return fmt.Errorf("dump %s: %w", location.Path, err)
		}
	}
	return nil
}

// topicNames returns the names of the topics in the checkpoints of all directories. What cannot be
// read is left out.
func topicNames(opt Options) map[[16]byte]string {
	names := map[[16]byte]string{}
	for _, location := range opt.Locations {
		for _, read := range []func(vfs.FS, string) (*checkpoint.State, error){storage.ReadCopy, storage.ReadState} {
			if s, err := read(opt.FS, location.Path); err == nil {
				for i := range s.Logs {
					names[s.Logs[i].ID.Topic] = s.Logs[i].Topic
				}
			}
		}
	}
	return names
}

type dumper struct {
	ctx      context.Context
	fs       vfs.FS
	location storage.Location
	o        DumpOptions
	emit     func(*Item) error
	state    *checkpoint.State
	file     string // the directory from which state was read
	byID     map[storage.ID]*checkpoint.Log
	topics   map[[16]byte]string // with Replaced, the names in the checkpoints of all directories
}

func (d *dumper) run() error {
	if err := d.load(); err != nil {
		return err
	}
	if d.o.Replaced {
		return d.segments()
	}
	var err error
	if d.o.Checkpoint && d.state != nil {
		err = d.checkpoint()
	}
	if err == nil && d.o.Journal {
		err = cmp.Or(d.journal(), d.quarantined())
	}
	if err == nil && d.o.Segments {
		err = d.segments()
	}
	return err
}

// load reads the checkpoint, or its copy if the checkpoint cannot be read.
func (d *dumper) load() error {
	d.file = path.Join(d.location.Path, storage.CheckpointDir)
	s, err := storage.ReadState(d.fs, d.location.Path)
	if err != nil && !access(err) {
		if d.o.Checkpoint {
			file, pos, what := locate(err, d.file)
			if err := d.emit(&Item{What: "damage", File: file, Position: max(pos, 0), Damage: what}); err != nil {
				return err
			}
		}
		d.file = path.Join(d.location.Path, storage.CheckpointMirror)
		s, err = storage.ReadCopy(d.fs, d.location.Path)
	}
	if access(err) {
		return err
	}
	if err == nil {
		d.state = s
		for i := range s.Logs {
			d.byID[s.Logs[i].ID] = &s.Logs[i]
		}
	}
	return nil // without a checkpoint the rest can still be shown
}

func (d *dumper) checkpoint() error {
	s := d.state
	clean, _ := storage.StoppedCleanly(d.fs, d.location, s)
	x := &ItemCheckpoint{
		Sequence: s.Seq, RedoFile: s.Redo.File, RedoLSN: uint64(s.Redo.LSN), DurableLSN: uint64(s.Durable),
		Directory: fmt.Sprintf("%x", s.Dir), Journal: fmt.Sprintf("%x", s.Journal), Logs: len(s.Logs), Clean: clean,
		Boot: fmt.Sprintf("%x", s.Boot), Found: s.Finding.Seq,
	}
	if s.Owner != (checkpoint.Owner{}) {
		x.Cluster, x.Generation = fmt.Sprintf("%x", s.Owner.Cluster), fmt.Sprintf("%x", s.Owner.Generation)
	}
	err := d.emit(&Item{What: "checkpoint", File: d.file, Checkpoint: x})
	for i := range s.Logs {
		l := &s.Logs[i]
		if err != nil || !d.o.wants(l.Topic, l.ID.Partition) {
			continue
		}
		x := &ItemLog{Start: l.Start, Stored: l.Offset, LSN: uint64(l.LSN), Clean: l.Clean, Reason: l.Offline + l.QuarantineFile,
			High: l.High, Epoch: l.HighEpoch, Epochs: l.Epochs.Entries(), Segments: []ItemSegment{}}
		for flag, set := range map[string]bool{"deleted": l.Deleted, "offline": l.Offline != "", "quarantined": l.QuarantineFile != "",
			"swap": l.Swapping, "acks-written": l.AcksWritten, "lossy": l.Lossy, "partial": l.Partial} {
			if set {
				x.Flags = append(x.Flags, flag)
			}
		}
		slices.Sort(x.Flags)
		for _, e := range l.Segments {
			x.Segments = append(x.Segments, ItemSegment{e.Base, e.Size})
		}
		it := &Item{What: "log", File: d.file, Log: x}
		d.of(it, l.Topic, l.ID, l.Start, l.Offset)
		err = d.emit(it)
	}
	return err
}

// of sets the log and the offsets of an item.
func (d *dumper) of(it *Item, topic string, id storage.ID, from, to int64) {
	it.Topic, it.Partition, it.Offset, it.Next = topic, &id.Partition, &from, &to
	if id.Topic != [16]byte{} {
		it.TopicID = base64.RawURLEncoding.EncodeToString(id.Topic[:])
	}
}

func (d *dumper) journal() error {
	jpath := d.location.JournalPath()
	files, err := journal.Files(d.fs, jpath, 0)
	if err != nil {
		return err
	}
	for _, in := range files {
		name := path.Join(jpath, in.Name)
		it := &Item{What: "journal-file", File: name, Bytes: in.Size, Journal: &ItemJournal{
			Sequence: in.Seq, Header: [...]string{"none", "one copy", "ok"}[in.Copies], FirstLSN: uint64(in.First),
			ID:     fmt.Sprintf("%x", in.ID),
			Needed: d.state == nil || in.Seq >= d.state.Redo.File,
		}}
		if in.Newer != nil {
			it.Damage = in.Newer.Error()
		}
		if err := d.emit(it); err != nil {
			return err
		}
		if in.Newer != nil {
			continue
		}
		if _, err := journal.Walk(d.fs, jpath, in.Seq,
			func(f journal.FrameAt) error { return d.frame(name, it.Journal.Needed, &f) }); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) frame(name string, needed bool, f *journal.FrameAt) error {
	if f.Skips() {
		return d.skip(name, needed, f)
	}
	topic, counts := "", needed
	if l := d.byID[f.Stream]; l != nil {
		topic, counts = l.Topic, needed && f.LSN > l.LSN
	}
	return d.show(name, topic, counts, f)
}

// quarantined shows the frames in quarantine files of known logs. They count if a start or a repair
// would replay them.
func (d *dumper) quarantined() error {
	names, err := d.framesFiles()
	for _, name := range names {
		if err != nil {
			return err
		}
		err = journal.ReadQuarantine(d.fs, name, func(f journal.Frame) error {
			l := d.byID[f.Stream]
			if l == nil || l.Deleted {
				return d.ctx.Err()
			}
			replayed := l.Offline != "" || name == path.Join(d.location.Path, l.QuarantineFile)
			return d.show(name, l.Topic, replayed, &journal.FrameAt{Frame: f})
		})
		if errors.Is(err, journal.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
			err = d.emit(&Item{What: "damage", File: name, Damage: err.Error()})
		}
	}
	return err
}

// framesFiles returns the quarantine files in the directory and in those of partitions.
func (d *dumper) framesFiles() (names []string, err error) {
	at := []string{d.location.Path}
	for len(at) > 0 {
		infos, err := d.fs.List(at[0])
		if err != nil {
			return nil, err
		}
		for _, in := range infos {
			name := path.Join(at[0], in.Name)
			if strings.HasSuffix(in.Name, storage.FramesSuffix) && !in.Dir {
				names = append(names, name)
			} else if _, _, ok := d.logIn(in.Name); ok && in.Dir && at[0] == d.location.Path {
				at = append(at, name)
			}
		}
		at = at[1:]
	}
	return names, nil
}

// show shows a frame with batches or a gap, if it is wanted. counts is as in ItemFrame.
func (d *dumper) show(name, topic string, counts bool, f *journal.FrameAt) error {
	if !d.o.wants(topic, f.Stream.Partition) || !d.o.within(f.PrevEnd, f.NextEnd) {
		return d.ctx.Err()
	}
	if err := d.before(name, f); err != nil {
		return err
	}
	x := &ItemFrame{LSN: uint64(f.LSN), Durable: uint64(f.DurableThrough), Type: "batches", Carried: f.Carried, Counts: counts}
	switch f.Type {
	case journal.Batches:
	case journal.Gap:
		x.Type, x.Epoch = "gap", &f.Epoch
	default:
		x.Type = "type " + strconv.Itoa(int(f.Type))
	}
	var inside []record.Batch
	for p := f.Payload; len(p) > 0 && f.Type == journal.Batches; {
		b, rest, err := record.Next(p)
		if err != nil {
			break
		}
		x.Records += int(b.Records())
		inside, p = append(inside, b), rest
	}
	it := &Item{What: "frame", File: name, Position: f.Pos, Bytes: int64(len(f.Payload)), Frame: x}
	d.of(it, topic, f.Stream, f.PrevEnd, f.NextEnd)
	err := d.emit(it)
	for _, b := range inside {
		if err == nil && d.o.Batches {
			err = d.emit(d.batch(name, f.Pos, topic, f.Stream, b))
		}
		if err == nil && d.o.Records {
			err = d.records(name, f.Pos, topic, f.Stream, b)
		}
	}
	if err == nil {
		err = d.ctx.Err()
	}
	return err
}

// skip shows a skip frame, which belongs to no log, if all logs are shown. Damage before it is
// shown in any case: it may be that of a frame which is wanted.
func (d *dumper) skip(name string, needed bool, f *journal.FrameAt) error {
	err := d.before(name, f)
	if err == nil && d.o.everything() {
		err = d.emit(&Item{What: "frame", File: name, Position: f.Pos,
			Frame: &ItemFrame{LSN: uint64(f.LSN), Durable: uint64(f.DurableThrough), Type: "skip", To: f.NextEnd, Counts: needed}})
	}
	return cmp.Or(err, d.ctx.Err())
}

// before shows that a frame before f is damaged.
func (d *dumper) before(name string, f *journal.FrameAt) error {
	if f.Before == nil {
		return nil
	}
	it := &Item{What: "damage", File: name, Position: f.Pos,
		Damage: fmt.Sprintf("before LSN %d: the frame with LSN %d does not match its checksum", f.LSN, f.Before.LSN)}
	if f.Before.Skips() {
		it.Frame = &ItemFrame{LSN: uint64(f.Before.LSN), Durable: uint64(f.Before.DurableThrough), Type: "skip", To: f.Before.NextEnd}
	}
	return d.emit(it)
}

// records shows the records of a batch.
func (d *dumper) records(name string, pos int64, topic string, id storage.ID, b record.Batch) error {
	var stop error
	err := b.Each(record.Limits{}, func(r record.Record) error {
		if !d.o.within(r.Offset, r.Offset+1) {
			return nil
		}
		it := &Item{What: "record", File: name, Position: pos, Bytes: int64(len(r.Key) + len(r.Value)),
			Record: &ItemRecord{Timestamp: r.Timestamp, Key: readable(r.Key), Value: readable(r.Value), Headers: r.Headers.Len(),
				Control: b.Control(), Decoded: decoded(topic, r.Key, r.Value), Raw: &r}}
		d.of(it, topic, id, r.Offset, r.Offset+1)
		stop = d.emit(it)
		return stop
	})
	if err != nil && stop == nil {
		return d.emit(&Item{What: "damage", File: name, Position: pos, Damage: "records of the batch: " + err.Error()})
	}
	return err
}

// readable returns bytes as text, quoted if a character is not printable, or nil for null.
func readable(p []byte) *string {
	if p == nil {
		return nil
	}
	s := string(p)
	if q := strconv.Quote(s); q != `"`+s+`"` {
		s = q
	}
	return &s
}

// segments shows the segments in the directories of partitions, regardless of the checkpoint.
func (d *dumper) segments() error {
	infos, err := d.fs.List(d.location.Path)
	if err != nil {
		return err
	}
	for _, in := range infos {
		topic, id, ok := d.logIn(in.Name)
		if !in.Dir || !ok {
			continue
		}
		n := id.Partition
		if name := path.Join(d.location.Path, in.Name); d.o.Replaced && topic == "" && d.o.Topic != "" && d.o.wants(d.o.Topic, n) {
			err := d.emit(&Item{What: "damage", File: name,
				Damage: "it may be of this topic: no checkpoint of these directories names its topic; give all log directories"})
			if err != nil {
				return err
			}
		}
		if !d.o.wants(topic, n) {
			continue
		}
		if err := d.partition(topic, id, path.Join(d.location.Path, in.Name)); err != nil {
			return err
		}
	}
	return nil
}

// logIn returns the log to which the directory with a name belongs. Its topic id is zero if the
// directory does not have it.
func (d *dumper) logIn(name string) (topic string, id storage.ID, ok bool) {
	if d.o.Replaced {
		id, _, ok := storage.ReplacedID(name)
		return d.topics[id.Topic], id, ok
	}
	dash := strings.LastIndexByte(name, '-')
	if dash < 1 {
		return "", id, false
	}
	p, err := strconv.ParseInt(name[dash+1:], 10, 32)
	id = storage.ID{Topic: storage.TopicIn(d.fs, path.Join(d.location.Path, name)), Partition: int32(p)}
	return name[:dash], id, err == nil
}

func (d *dumper) partition(topic string, id storage.ID, dir string) error {
	infos, err := d.fs.List(dir)
	if err != nil {
		return err
	}
	for i, in := range infos {
		base, ok := segment.ParseName(in.Name)
		if !ok || in.Dir || d.o.To > 0 && base >= d.o.To {
			continue
		}
		next := int64(math.MaxInt64)
		for _, later := range infos[i+1:] {
			if b, ok := segment.ParseName(later.Name); ok {
				next = b
				break
			}
		}
		if next <= d.o.From {
			continue
		}
		if err := d.segment(topic, id, dir, in, base, next); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) segment(topic string, id storage.ID, dir string, in vfs.Info, base, next int64) error {
	name := path.Join(dir, in.Name)
	it := &Item{What: "segment", File: name, Bytes: in.Size}
	d.of(it, topic, id, base, base)
	it.Next = nil
	if err := d.emit(it); err != nil {
		return err
	}
	x, err := segment.Check(d.fs, dir, base, segment.Facts{Size: in.Size, End: next}, false, func(pos int64, b record.Batch) error {
		if !d.o.within(b.BaseOffset(), b.LastOffset()+1) {
			return d.ctx.Err()
		}
		err := d.emit(d.batch(name, pos, topic, id, b))
		if err == nil && d.o.Records {
			err = d.records(name, pos, topic, id, b)
		}
		if err == nil {
			err = d.ctx.Err()
		}
		return err
	})
	for _, f := range x.Flaws {
		if err == nil && d.o.within(f.From, f.To) {
			it := &Item{What: "damage", File: name, Position: f.Pos, Bytes: f.Size, Damage: "not a valid batch"}
			if f.Numbering {
				it.Damage = fmt.Sprintf("the batch has offset %d", f.Base)
			}
			to := f.To
			d.of(it, topic, id, f.From, to)
			err = d.emit(it)
		}
	}
	if err != nil {
		return err
	}
	return d.aborted(topic, id, path.Join(dir, segment.Name(base)+segment.AbortedSuffix))
}

// batch returns the item of a batch.
func (d *dumper) batch(name string, pos int64, topic string, id storage.ID, b record.Batch) *Item {
	it := &Item{What: "batch", File: name, Position: pos, Bytes: int64(len(b)), Batch: &ItemBatch{
		Records: b.Records(), Epoch: b.LeaderEpoch(), MaxTimestamp: b.MaxTimestamp(), Codec: b.Codec().String(),
		Producer:   b.ProducerID(),
		ProducerEp: b.ProducerEpoch(), Sequence: b.BaseSequence(), Control: b.Control(), Txn: b.Transactional(),
	}}
	if d.o.Batches {
		it.Batch.Content = b
		if l := d.byID[id]; l != nil && !d.o.Replaced { // of a replaced log, it is unknown
			it.Batch.CompactedTo = l.Clean
		}
	}
	d.of(it, topic, id, b.BaseOffset(), b.LastOffset()+1)
	return it
}

// aborted shows a segment's index of aborted transactions, if it has one.
func (d *dumper) aborted(topic string, id storage.ID, name string) error {
	b, err := vfs.ReadFile(d.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, damage := txnindex.Parse(b)
	for i, e := range entries {
		if !d.o.within(e.First, e.Last+1) {
			continue
		}
		it := &Item{What: "aborted", File: name, Position: int64(i) * txnindex.Size, Bytes: txnindex.Size,
			Aborted: &ItemAborted{Producer: e.Producer, Stable: e.Stable}}
		d.of(it, topic, id, e.First, e.Last+1)
		if err := d.emit(it); err != nil {
			return err
		}
	}
	if damage != nil {
		it := &Item{What: "damage", File: name, Position: int64(len(entries)) * txnindex.Size, Damage: damage.Error()}
		d.of(it, topic, id, 0, 0)
		it.Offset, it.Next = nil, nil
		return d.emit(it)
	}
	return nil
}
