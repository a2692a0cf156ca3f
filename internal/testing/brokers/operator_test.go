package brokers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/chronikd"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/tries"
	"github.com/chronik-io/chronik/internal/vfs"
)

const metadataDir = "/data/metadata"

// operations are faults that need an operator, who does what the brokers and their commands say.
func operations() []fault {
	return []fault{
		{"damaged log directory", 3, func(c *clients, id int32) { c.damage(id, false) }},
		{"damaged log directory, repaired", 2, func(c *clients, id int32) { c.damage(id, true) }},
		{"lost log directory", 2, (*clients).loseLogs},
		{"lost metadata directory", 2, (*clients).loseMetadata},
		{"lost voters", 4, func(c *clients, _ int32) { c.loseVoters() }},
		{"lost voters, twice", 2, func(c *clients, _ int32) {
			c.loseVoters()
			time.Sleep(c.w.seconds(5))
			c.loseVoters()
		}},
		{"backup of the metadata", 3, (*clients).backUp},
		{"restored metadata", 3, func(c *clients, id int32) { c.restore(id) }},
		{"restored metadata, twice", 2, func(c *clients, id int32) {
			c.backUp(id)
			time.Sleep(c.w.seconds(5))
			c.restore(id)
			time.Sleep(c.w.seconds(5))
			c.restore(id)
		}},
	}
}

// at returns the disk of a broker that does not run.
func (w *world) at(id int32) *crashfs.FS {
	n := w.nodes[id]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.disk
}

// endSomehow ends a broker in one of several ways.
func (w *world) endSomehow(id int32) {
	switch how := w.random.IntN(4); {
	case how == 0 && w.process(id) != nil:
		w.stop(id)
	case how == 1:
		w.powerLoss(id, w.mode())
	default:
		w.kill(id)
	}
	n := w.nodes[id]
	n.mu.Lock()
	n.broken = false
	n.mu.Unlock()
}

// files returns the files of a log directory, apart from those that a broker makes again.
func (w *world) files(d vfs.FS, dir string) (list []string) {
	all, err := d.List(dir)
	if err != nil {
		w.problem("%s: %v", dir, err)
	}
	for _, in := range all {
		name := path.Join(dir, in.Name)
		switch {
		case name == copies.In(logDir) || strings.HasPrefix(in.Name, ".lock"):
		case in.Dir:
			list = append(list, w.files(d, name)...)
		case in.Size > 0:
			list = append(list, name)
		}
	}
	return list
}

// damage stops a broker, damages a file of its log directory, and lets an operator run log repair.
// It refuses, because other brokers have replicas; then the operator does what it says. Or the
// operator claims that this is the last copy, which is wrong: the others have everything.
func (c *clients) damage(id int32, last bool) {
	w := c.w
	if bad := c.needs(id); bad != "" {
		w.note("not damaged: %s", bad)
		return
	}
	w.wiped, w.damaged = true, id
	w.endSomehow(id)
	defer w.start(id)
	d := w.at(id)
	list := w.files(d, logDir)
	if len(list) == 0 {
		return
	}
	w.spoil(d, list[w.random.IntN(len(list))])
	o, err := inspect.Find(d, []string{"/data"}, nil)
	if err != nil {
		w.problem("log repair on broker %d: %v", id, err)
		return
	}
	o.LastCopy, o.Node = last, id
	r, err := inspect.Begin(context.Background(), o, "an operator")
	if errors.Is(err, inspect.ErrReplicated) && !last {
		w.note("%v", err)
		if strings.Contains(err.Error(), "empty directory") {
			w.remove(d, logDir)
		}
		return
	}
	if err != nil {
		w.problem("log repair on broker %d: %v", id, err)
		return
	}
	defer r.Close()
	for _, a := range r.Plan().Acts {
		w.note("%s: %s-%d: %s", a.Dir, a.Topic, a.Partition, a.What)
		if c.judges(a.Topic) && !last {
			w.problem("log repair on broker %d repairs %s-%d, which has other replicas", id, a.Topic, a.Partition)
		}
	}
	if len(r.Plan().Acts) == 0 {
		return
	}
	if err := r.Do(context.Background(), fmt.Sprint("/before-", time.Now().UnixNano())); err != nil {
		w.problem("log repair on broker %d: %v", id, err)
	}
}

// judges reports whether a topic is one that is judged, and so has several replicas.
func (c *clients) judges(topic string) bool {
	return strings.HasPrefix(topic, "__") || topic == payments ||
		slices.ContainsFunc(c.parts, func(p *partition) bool { return p.topic == topic })
}

// spoil removes a file, or changes bytes of it. The journal is only removed: where its last frames
// are, changed bytes look like a write that a loss of power interrupted.
func (w *world) spoil(d vfs.FS, name string) {
	f, err := d.Open(name)
	if err != nil {
		w.problem("%s: %v", name, err)
		return
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		w.problem("%s: %v", name, err)
		return
	}
	if strings.Contains(name, "/journal/") || w.random.IntN(3) == 0 {
		w.note("%s is removed", name)
		w.remove(d, name)
		return
	}
	at := w.random.Int64N(size)
	b := make([]byte, min(size-at, 8))
	if _, err := f.ReadAt(b, at); err != nil {
		w.problem("%s: %v", name, err)
	}
	for i := range b {
		b[i] ^= 0x55
	}
	if _, err := f.WriteAt(b, at); err != nil {
		w.problem("%s: %v", name, err)
	}
	if err := f.Datasync(); err != nil {
		w.problem("%s: %v", name, err)
	}
	w.note("%s is changed at %d of %d", name, at, size)
}

// remove removes a file or a directory for good.
func (w *world) remove(d vfs.FS, name string) {
	if err := errors.Join(d.RemoveAll(name), d.SyncDir(path.Dir(name))); err != nil {
		w.problem("%s: %v", name, err)
	}
}

// loseLogs replaces the log directory of a broker by an empty one. Its metadata remain.
func (c *clients) loseLogs(id int32) {
	if bad := c.needs(id); bad != "" {
		c.w.note("not removed: %s", bad)
		return
	}
	c.w.endSomehow(id)
	// It may have taken seconds, in which another broker was fenced and topics were created.
	if bad := c.onlyOn(id); bad != "" {
		c.w.note("not removed: %s", bad)
	} else {
		c.w.wiped = true
		c.w.remove(c.w.at(id), logDir)
	}
	c.w.start(id)
}

// onlyOn returns which partition may have no other replica in sync than that of a broker which has
// ended, empty if each of them has one.
func (c *clients) onlyOn(id int32) string {
	all, bad := c.state(c.w.other(id))
	if all == nil {
		return bad
	}
	for name, parts := range all {
		for i, isr := range parts {
			if !slices.ContainsFunc(isr, func(b int32) bool { return b != id }) {
				return fmt.Sprintf("%s-%d has no other replica in sync than that of broker %d: %v", name, i, id, isr)
			}
		}
	}
	return ""
}

// loseMetadata removes the metadata directory of a broker. Its logs remain.
func (c *clients) loseMetadata(id int32) {
	if bad := c.needs(id); bad != "" {
		c.w.note("not removed: %s", bad)
		return
	}
	c.w.endSomehow(id)
	c.w.remove(c.w.at(id), metadataDir)
	c.w.start(id)
}

// loseVoters lets most voters lose their metadata; or the only one, or all of its data.dir.
func (c *clients) loseVoters() {
	if c.w.seeds() > 1 || c.w.random.IntN(2) == 0 {
		c.recoverMetadata()
		return
	}
	c.loseDataDir()
}

// recoverMetadata lets all brokers end, and all voters but one lose their metadata; the only one of
// a cluster loses them, too, and has the copy. Then an operator follows docs/cluster.md. The voter
// that is left has all that was acknowledged, so nothing is lost.
func (c *clients) recoverMetadata() {
	w := c.w
	w.net.Heal()
	for id := range w.size() {
		w.endSomehow(id + 1)
	}
	id, args := w.survivor()
	if id == 0 {
		w.heal()
		return
	}
	if len(args) > 1 { // it restores the copy
		w.remove(w.at(id), metadataDir)
	}
	c.recoverOn(id, args...)
}

// recoverOn lets an operator recover the metadata on a broker: all brokers have ended.
func (c *clients) recoverOn(id int32, args ...string) {
	w := c.w
	code, text := w.chronikd(id, args...)
	lost := regexp.MustCompile(`--lost ([0-9,-]+)`).FindStringSubmatch(text)
	if code != exit.Usage || lost == nil {
		w.problem("chronikd %v at broker %d: exit code %d: %s", args, id, code, text)
		return
	}
	if code, text = w.chronikd(id, append(args, "--lost", lost[1])...); code != 0 {
		w.problem("chronikd %v --lost %s at broker %d: exit code %d: %s", args, lost[1], id, code, text)
		return
	}
	for o := range w.size() {
		if o+1 != id {
			w.remove(w.at(o+1), metadataDir)
		}
		w.start(o + 1)
	}
	c.electAll()
}

// backUp copies the metadata of a broker that runs, if a restore later brings back all topics that
// are judged.
func (c *clients) backUp(id int32) {
	w := c.w
	all, bad := c.state(id)
	if bad != "" || all["__consumer_offsets"] == nil || all["__transaction_state"] == nil ||
		all["__share_group_state"] == nil {
		w.note("no backup: %s", bad)
		return
	}
	d, copied := w.at(id), map[string][]byte{}
	for _, name := range w.files(d, metadataDir) {
		data, err := read(d, name)
		if errors.Is(err, fs.ErrNotExist) {
			w.note("no backup: %v", err) // it has just begun another file
			return
		}
		if err != nil {
			w.problem("backup: %v", err)
		}
		copied[path.Base(name)] = data
	}
	w.backup, w.moved = copied, false
}

// read returns the content of a file.
func read(d vfs.FS, name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	data := make([]byte, size)
	if err == nil {
		_, err = f.ReadAt(data, 0)
	}
	return data, errors.Join(err, f.Close())
}

// put makes a directory that has files of some names.
func (w *world) put(d vfs.FS, dir string, files map[string][]byte) {
	err := d.MkdirAll(dir)
	for name, data := range files {
		f, ferr := d.Create(path.Join(dir, name))
		if ferr == nil {
			_, ferr = f.WriteAt(data, 0)
			ferr = errors.Join(ferr, f.Datasync(), f.Close())
		}
		err = errors.Join(err, ferr)
	}
	if err = errors.Join(err, d.SyncDir(dir), d.SyncDir(path.Dir(dir))); err != nil {
		w.problem("%s: %v", dir, err)
	}
}

// restore lets all voters lose their metadata, and an operator restore the backup. What was changed
// since then is gone, but no record of a topic that the backup has.
func (c *clients) restore(id int32) {
	w := c.w
	if w.backup == nil || w.moved || w.damaged != 0 {
		w.note("not restored: there is no backup, or replicas were moved")
		return
	}
	w.net.Heal()
	for o := range w.size() {
		w.endSomehow(o + 1)
		w.remove(w.at(o+1), metadataDir)
	}
	id = 1 + (id-1)%w.seeds()
	const dir = "/backup"
	d := w.at(id)
	w.remove(d, dir)
	w.put(d, dir, w.backup)
	c.config.Lose()
	c.refunds.set(nil)
	c.mu.Lock()
	c.restores++
	for name := range c.topics {
		c.topics[name] = unsure
	}
	c.mu.Unlock()
	w.restored = true
	from := dir
	if kept, err := copies.Check(d, copies.In(logDir)); err == nil && kept.Used {
		// A broker refuses metadata that are older than the copy which it kept when it had few
		// others, and says that the copy is to be restored.
		if old, err := raftstore.Read(d, dir); err != nil || old.Revision < kept.Revision {
			from = copies.In(logDir)
		}
	}
	c.recoverOn(id, "recover", "--from", from)
}

// deleteOffline deletes the topics that restored metadata has and no broker has logs of.
func (c *clients) deleteOffline(ctx context.Context) {
	all, err := kadm.NewClient(c.admin).Metadata(ctx)
	if err != nil {
		return
	}
	for name, t := range all.Topics {
		for _, p := range t.Partitions {
			if p.Leader < 0 && (name == refunds || strings.HasPrefix(name, "extra-")) {
				c.mu.Lock()
				if _, known := c.topics[name]; known {
					c.topics[name] = unsure
				}
				c.mu.Unlock()
				_, err := kadm.NewClient(c.admin).DeleteTopic(ctx, name)
				c.w.note("an operator deletes %s: %v", name, err)
			}
		}
	}
}

// survivor returns the broker from which the metadata is recovered, and the command; 0 if none has
// all that was acknowledged.
func (w *world) survivor() (id int32, args []string) {
	var best raftstore.Content
	for o := range w.seeds() {
		c, err := raftstore.Read(w.at(o+1), metadataDir)
		if err != nil {
			w.problem("the metadata of broker %d: %v", o+1, err)
			continue
		}
		more := c.Term > best.Term || c.Term == best.Term && c.Last > best.Last
		if slices.Contains(c.Voters, c.Member) && (id == 0 || more) {
			id, best = o+1, c
		}
	}
	if id == 0 || len(best.Voters) > 1 {
		return id, []string{"recover"}
	}
	kept, err := copies.Check(w.at(id), copies.In(logDir))
	if err != nil || kept.Revision < best.Revision {
		w.note("not lost: the copy has revision %d of %d: %v", kept.Revision, best.Revision, err)
		return 0, nil
	}
	return id, []string{"recover", "--from", copies.In(logDir)}
}

// chronikd runs a command on the machine of a broker that does not run.
func (w *world) chronikd(id int32, args ...string) (code int, text string) {
	for _, s := range w.settings(id) {
		args = append(args, "--set", s)
	}
	host := w.net.Host(ip(id))
	defer host.Kill()
	var out bytes.Buffer
	code = chronikd.Main(context.Background(), chronikd.Process{Args: args, Out: &out, Err: &out, FS: w.at(id), Net: host})
	w.note("chronikd %s at broker %d: exit code %d: %s", args[0], id, code, out.String())
	return code, out.String()
}

// electAll elects leaders of recovered metadata as soon as all brokers are active.
func (c *clients) electAll() {
	w, why := c.w, ""
	w.elects.Store(true)
	defer w.elects.Store(false)
	active := func() bool {
		_, why = c.state(1)
		return w.allRun() && why != "" && !strings.Contains(why, " brokers; ") && !strings.HasPrefix(why, "broker ") || why == ""
	}
	if until(patience, active) != nil {
		w.problem("not all brokers are active with recovered metadata: %s", why)
		return
	}
	if until(patience, func() bool {
		within, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := kadm.NewClient(c.admin).ElectLeaders(within, kadm.ElectLiveReplica, nil); err != nil {
			w.note("an operator elects leaders: %v", err)
			return false
		}
		if w.restored {
			c.deleteOffline(within)
		}
		_, why = c.state(1)
		return !strings.Contains(why, "leader -1")
	}) != nil {
		w.problem("partitions of recovered metadata stay without a leader: %s", why)
	}
}

// Most voters lose their metadata, and again when all is well: of three voters two, and the only
// one, which has the copy.
func TestLostVotersAreRecovered(t *testing.T) {
	for _, voters := range []int32{3, 1} {
		t.Run(fmt.Sprint("voters ", voters), func(t *testing.T) {
			historyOf(t, 41, kind{voters: voters}, func(w *world, c *clients) {
				for range 3 {
					c.inSync()
					c.recoverMetadata()
					c.progress(time.Minute)
				}
			})
		})
	}
}

// All voters lose their metadata, and an older state is restored, twice the same one.
func TestMetadataAreRestoredTwice(t *testing.T) {
	history(t, 43, restoredTwice)
}

// restoredTwice is that history. After each restore new producers write: their ids are not those of
// the producers that came after the former one.
func restoredTwice(w *world, c *clients) {
	time.Sleep(5 * time.Second)
	c.inSync()
	c.backUp(1)
	for id := int32(1); id <= 2; id++ {
		time.Sleep(5 * time.Second)
		c.restore(id)
		c.inSync()
		c.progress(time.Minute)
		c.newcomers()
	}
	if !w.restored {
		w.problem("nothing was restored")
	}
}

// newcomers lets new producers write a record each.
func (c *clients) newcomers() {
	p := c.parts[0]
	for i := range 4 * c.w.size() {
		value := fmt.Sprintf("newcomer-%d-%d", i, time.Now().UnixNano())
		p.history.Attempted(value)
		cl := c.producer()
		if r, err := cl.ProduceSync(c.ctx, p.record(value)).First(); err != nil {
			c.w.problem("record %s: %v", value, err)
		} else {
			p.history.Acked(r.Offset, value)
		}
		cl.Close()
	}
}

// A log directory is damaged, of one broker after the other: log repair refuses or is misled, and
// the broker copies what it lacks.
func TestDamagedLogDirectories(t *testing.T) {
	for _, last := range []bool{false, true} {
		t.Run(fmt.Sprint("last copy ", last), func(t *testing.T) {
			history(t, 42, func(w *world, c *clients) {
				for i := range int32(tries.Some(9, 3)) {
					c.inSync()
					time.Sleep(w.seconds(3))
					c.damage(1, last)
					if i%3 == 2 {
						c.progress(time.Minute)
					}
				}
			})
		})
	}
}
