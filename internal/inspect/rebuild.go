package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/vfs"
)

// rebuild is the repair of metadata that is lost, damaged or older than its copy: the best readable
// base, and in addition every topic of which only logs exist.
type rebuild struct {
	at       string    // the directory of the metadata
	from     string    // where the base was read; empty: there is none
	written  time.Time // when the base was written
	revision int64     // of the base
	next     int64     // of the result: above those of the base and of all copies
	keys     map[string]metadata.KV
	image    *metadata.Image // of keys
	made     []string        // topics that were created from logs, with their partitions
	partly   []string        // their partitions that no directory has
	skipped  []string        // logs for which no topic could be created, and why
	dropped  []string        // topics of the base that were replaced
	behind   bool            // the base lacks transactions, or may lack some
}

// Configs of a topic that is created from its logs. They keep all records until an operator has
// configured the topic.
const (
	retentionTime  = "retention.ms"
	retentionBytes = "retention.bytes"
	cleanupPolicy  = "cleanup.policy"
	unlimited      = "-1"
	compact        = "compact"
	profile        = "chronik.durability.profile"
	durable        = "sync"
)

// producerIDMargin is added to the highest producer id in the logs, so that new ids are above all
// ids handed out before, including those that no log knows.
const producerIDMargin = 1 << 32

// base is a candidate for the metadata on which a rebuild builds.
type base struct {
	from    string
	content copies.Content
	copy    bool
}

// rebuild plans the repair of the metadata in a directory; content is the part of it that can be
// read. It returns nil if it would need logs whose checkpoint is lost, or if the result is
// inconsistent. An error means that a newer version of chronik wrote the metadata, a copy of it or
// a log directory, or that the system failed to read one of them, which may be whole.
func (r *Inspection) rebuild(opt Options, at string, content *copies.Content) (*rebuild, error) {
	b := &rebuild{at: at, keys: map[string]metadata.KV{}}
	for _, d := range r.dirs { // its topics, epochs and producer ids are unknown
		if d.unread != nil {
			return nil, fmt.Errorf("log directory %s: %w", d.location.Path, d.unread)
		}
	}
	best, newest, err := r.bestBase(opt, at, content)
	if err != nil {
		return nil, err
	}
	b.next = newest + 1
	if best != nil {
		b.from, b.revision, b.behind = best.from, best.content.Revision, !best.copy
		b.written = modified(opt.FS, best.from)
		for _, kv := range best.content.Keys {
			b.keys[kv.Key] = kv
		}
	}
	for _, d := range r.dirs {
		if d.state == nil && d.out.Used && b.from == "" {
			return nil, nil // its logs are unknown until its checkpoint has been restored
		}
	}
	if _, ok := b.keys[metadata.ClusterKey]; !ok {
		cluster := metadata.NewCluster(metadata.FormatID(metadata.NewID()), metadata.NewID())
		b.put(metadata.ClusterKey, cluster.Encode())
	}
	b.addTopics(r.dirs, max(opt.Node, 0))
	b.raiseEpochs(r.dirs)
	b.skipProducerIDs(r.dirs)
	if b.image, err = metadata.Load(b.sorted(), b.next); err != nil {
		return nil, nil //nolint:nilerr // documented above
	}
	return b, nil
}

// sorted returns the keys in order.
func (b *rebuild) sorted() []metadata.KV {
	return sorts.Sorted(maps.Values(b.keys), func(x, y metadata.KV) int { return strings.Compare(x.Key, y.Key) })
}

// bestBase returns the copy or the readable rest with the highest revision that belongs to these
// log directories and to the cluster of the rest, if that is known. best is nil if there is none.
// newest is the highest revision of all of them: startup refuses metadata that is behind one of its
// copies. If a newer version of chronik wrote one of them, or the system fails to read it, bestBase
// returns an error: a repair would lose its contents.
func (r *Inspection) bestBase(opt Options, at string, content *copies.Content) (best *base, newest int64, err error) {
	all := []base{}
	consider := func(dir string, c copies.Content, err error) error {
		if err != nil && !errors.Is(err, statelog.ErrDamaged) {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if err == nil && c.Used && c.SameCluster(content) {
			all = append(all, base{from: dir, content: c, copy: true})
		}
		return nil
	}
	for _, suffix := range newSuffixes { // of a repair that was interrupted
		m, err := raftstore.Read(opt.FS, at+suffix)
		if err := consider(at+suffix, contentOf(&m), err); err != nil {
			return nil, 0, err
		}
	}
	for _, d := range r.dirs {
		dir := copies.In(d.location.Path)
		c, err := copies.Check(opt.FS, dir)
		if err := consider(dir, c, err); err != nil {
			return nil, 0, err
		}
	}
	if len(content.Keys) > 0 {
		all = append(all, base{from: at, content: *content})
	}
	sorts.SortStable(all, func(a, b base) int { return cmp.Compare(b.content.Revision, a.content.Revision) })
	for i := range all {
		newest = max(newest, all[i].content.Revision)
		img, err := metadata.Load(all[i].content.Keys, all[i].content.Revision)
		if errors.Is(err, metadata.ErrNewerVersion) {
			return nil, 0, fmt.Errorf("%s: %w", all[i].from, err)
		}
		if best == nil && err == nil && r.owns(img) {
			best = &all[i]
		}
	}
	return best, newest, nil
}

// owns reports whether an image can belong to these log directories: it has one of their topics, or
// places a partition in one of them. The copy of another broker does neither. If there are no
// topics and no partitions, nothing contradicts it.
func (r *Inspection) owns(img *metadata.Image) bool {
	placed := false
	for t := range img.Topics() {
		for i, p := range t.Partitions.All() {
			for _, broker := range p.Replicas {
				id, ok := img.Placement(broker, metadata.TopicPartition{Topic: t.ID, Partition: i})
				if ok && r.hasDir(id) {
					return true
				}
				placed = placed || ok
			}
		}
	}
	any := false
	for _, d := range r.dirs {
		for _, l := range d.logs {
			if img.TopicByID(l.st.ID.Topic) != nil || img.Deleting(l.st.ID.Topic) != nil {
				return true
			}
			any = true
		}
	}
	return !any && !placed
}

// hasDir reports whether one of the log directories has an id.
func (r *Inspection) hasDir(id [16]byte) bool {
	return slices.ContainsFunc(r.dirs, func(d *dir) bool { return d.state != nil && d.state.Dir == id })
}

func (b *rebuild) put(key string, value []byte) {
	b.keys[key] = metadata.KV{Key: key, Value: value, ModRevision: b.next}
}

// logsByTopic returns the logs of all directories by topic id, without deleted ones.
func logsByTopic(dirs []*dir) map[[16]byte][]*log {
	all := map[[16]byte][]*log{}
	for _, d := range dirs {
		for _, l := range d.logs {
			if !l.st.Deleted {
				all[l.st.ID.Topic] = append(all[l.st.ID.Topic], l)
			}
		}
	}
	return all
}

// addTopics creates a topic for all logs whose topic the base lacks.
func (b *rebuild) addTopics(dirs []*dir, node int32) {
	logs := logsByTopic(dirs)
	ids := sorts.Sorted(maps.Keys(logs), func(x, y [16]byte) int {
		return cmp.Or(strings.Compare(logs[x][0].st.Topic, logs[y][0].st.Topic), slices.Compare(x[:], y[:]))
	})
	for _, id := range ids {
		_, known := b.keys[metadata.TopicKey(id)]
		_, dying := b.keys[metadata.DeletingKey(id)]
		if known || dying {
			continue
		}
		if other, taken := b.nameOf(logs[id][0].st.Topic); taken {
			if len(logs[other]) > 0 {
				b.skipped = append(b.skipped,
					fmt.Sprintf("%s (topic id %s): another topic has that name", logs[id][0].st, metadata.FormatID(id)))
				continue
			}
			b.drop(other)
		}
		b.addTopic(id, logs[id], node)
	}
}

// nameOf returns the topic that has a name, or one that collides with it.
func (b *rebuild) nameOf(name string) (id [16]byte, taken bool) {
	kv, taken := b.keys[metadata.NameKey(name)]
	if !taken {
		return id, false
	}
	n, err := metadata.DecodeName(kv)
	return n.ID, err == nil
}

// drop removes a topic of the base. It was deleted after the base was written, and another topic
// has its name.
func (b *rebuild) drop(id [16]byte) {
	if rec, err := metadata.DecodeTopicRecord(b.keys[metadata.TopicKey(id)]); err == nil {
		b.dropped = append(b.dropped, rec.Name)
	}
	for key, kv := range b.keys {
		if of, ok := metadata.TopicOf(kv); ok && of == id {
			delete(b.keys, key)
		}
	}
}

func (b *rebuild) addTopic(id [16]byte, logs []*log, node int32) {
	name, count := logs[0].st.Topic, int32(0)
	at := map[int32]*log{}
	for _, l := range logs {
		at[l.st.ID.Partition] = l
		count = max(count, l.st.ID.Partition+1)
	}
	b.put(metadata.NameKey(name), metadata.Name{Topic: name, ID: id}.Encode())
	b.put(metadata.TopicKey(id), metadata.TopicRecord{Name: name, Internal: metadata.IsInternal(name), Partitions: count}.Encode())
	placed := map[int32][16]byte{}
	for i := range count {
		if l := at[i]; l != nil {
			placed[i] = l.dir.state.Dir
		} else {
			b.partly = append(b.partly, fmt.Sprintf("%s-%d", name, i))
		}
		p := metadata.Partition{Leader: node, Replicas: []int32{node}, ISR: []int32{node}}
		b.put(metadata.PartitionKey(id, i), p.Encode())
	}
	var none metadata.Placement
	b.put(metadata.PlacementKey(node, id), none.With(placed).Encode())
	set := map[string]string{retentionTime: unlimited, retentionBytes: unlimited}
	if metadata.IsInternal(name) {
		set = map[string]string{cleanupPolicy: compact, profile: durable}
	}
	b.put(metadata.TopicConfigKey(id), metadata.EncodeConfigs(set))
	b.behind = true
	b.made = append(b.made, fmt.Sprintf("%s (%s)", name, text.Plural(int(count), "partition", "partitions")))
}

// raiseEpochs gives each partition a leader epoch above those of its log. A start writes a
// checkpoint before it leads a partition in the next epoch, so frames carry at most one epoch that
// the checkpoint does not know.
func (b *rebuild) raiseEpochs(dirs []*dir) {
	for _, d := range dirs {
		for _, l := range d.logs {
			key := metadata.PartitionKey(l.st.ID.Topic, l.st.ID.Partition)
			kv, ok := b.keys[key]
			if !ok {
				continue
			}
			p, err := metadata.DecodePartition(kv)
			if latest := l.st.Epochs.Latest(); err == nil && latest >= 0 && (latest > p.LeaderEpoch || kv.ModRevision > b.revision) {
				b.behind = b.behind || kv.ModRevision <= b.revision
				p.LeaderEpoch, p.PartitionEpoch = latest+2, p.PartitionEpoch+1
				b.put(key, p.Encode())
			}
		}
	}
}

// skipProducerIDs sets the next producer id above all that the logs know. A new producer with a
// known id would be mistaken for the old one, and its records for duplicates.
func (b *rebuild) skipProducerIDs(dirs []*dir) {
	var ids metadata.ProducerIDs
	if kv, ok := b.keys[metadata.ProducerIDsKey]; ok {
		if known, err := metadata.DecodeProducerIDs(kv); err == nil {
			ids = known
		}
	}
	for _, d := range dirs {
		for _, l := range d.logs {
			var known producers.State
			if _, err := known.Decode(l.st.Producers); err != nil {
				continue // reported by a finding of its own
			}
			for id := range known.LastOffsets() {
				ids.Next = max(ids.Next, id+1)
			}
		}
	}
	ids.Next += producerIDMargin
	b.put(metadata.ProducerIDsKey, ids.Encode())
}

// what describes the rebuild for people.
func (b *rebuild) what() string {
	act := "create new metadata"
	if b.from != "" && b.from != b.at {
		act = fmt.Sprintf("replace the metadata with its copy in %s (revision %d%s)", b.from, b.revision, b.when())
	} else if b.from != "" {
		act = fmt.Sprintf("keep the readable part of the metadata, up to revision %d", b.revision)
	}
	if len(b.made) > 0 {
		act += "; create " + text.Plural(len(b.made), "topic", "topics") +
			" from the logs, which keep all records until their configs are set: " + strings.Join(b.made, ", ")
	}
	return act
}

// when formats the time of the base.
func (b *rebuild) when() string {
	if b.written.IsZero() {
		return ""
	}
	return b.written.Format(", written 2006-01-02 15:04:05 UTC")
}

// gone describes what the rebuild cannot restore; empty means nothing.
func (b *rebuild) gone() string {
	var list []string
	if b.from == "" {
		list = append(list, "configs of topics, brokers and groups", "the cluster id")
	} else if len(b.made) > 0 {
		list = append(list, "configs of the topics that are created from their logs")
	}
	if b.behind && b.from != "" {
		list = append(list, fmt.Sprintf("changes of topics and configs after revision %d", b.revision))
	}
	for _, x := range []struct {
		what  string
		names []string
	}{
		{"records of partitions that no directory has: ", b.partly},
		{"topics whose names belong to newer topics: ", b.dropped},
		{"access to ", b.skipped},
	} {
		if len(x.names) > 0 {
			list = append(list, x.what+strings.Join(x.names, ", "))
		}
	}
	return strings.Join(list, "; ")
}

// act returns the rebuild as an act of a plan.
func (b *rebuild) act() Act {
	return Act{Dir: b.at, Partition: -1, What: b.what(), Files: []string{b.at}, Gone: b.gone()}
}

// newSuffixes are the suffixes of the directory in which the new metadata is written. The second
// one is used if the first directory, left by an interrupted repair, is the base.
var newSuffixes = [2]string{".new", ".new2"}

// run writes the metadata to a directory next to its place, and then renames that directory. Until
// then the copy and the logs stay unchanged, so that an interrupted repair can be repeated.
func (b *rebuild) run(fsys vfs.FS) error {
	fresh, other := b.at+newSuffixes[0], b.at+newSuffixes[1]
	if b.from == fresh {
		fresh, other = other, fresh
	}
	if err := fsys.RemoveAll(fresh); err != nil {
		return err
	}
	if err := vfs.MakeDir(fsys, fresh); err != nil {
		return err
	}
	cluster, err := metadata.DecodeCluster(b.keys[metadata.ClusterKey])
	if err == nil {
		err = raftstore.Begin(fsys, fresh, cluster.Generation, b.sorted(), b.next)
	}
	if err != nil {
		return err
	}
	if err := fsys.RemoveAll(b.at); err != nil {
		return err
	}
	if err := fsys.Rename(fresh, b.at); err != nil {
		return err
	}
	if err := fsys.SyncDir(path.Dir(b.at)); err != nil {
		return err
	}
	return fsys.RemoveAll(other)
}

// modified returns when a file in a directory was last written, in UTC, or zero if that is unknown.
func modified(fsys vfs.FS, dir string) (last time.Time) {
	infos, _ := fsys.List(dir) // other checks report directories that cannot be listed
	for _, in := range infos {
		if in.Modified.After(last) {
			last = in.Modified
		}
	}
	return last.UTC()
}
