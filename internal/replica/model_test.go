package replica

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// walk is a random walk over images. Topics with few names are created, grow, change and are
// deleted, while disks reject logs and block calls.
type walk struct {
	*cluster
	rnd    *rand.Rand
	topics map[string]*walked
	ids    byte
	gates  []*gate
	faults []*errfs.Fault
}

type walked struct {
	id         [16]byte
	partitions int32
	profile    string
	epochs     map[int32]int32
}

// step makes one change.
func (w *walk) step(t *testing.T, errs *errfs.FS) {
	name := string(rune('x' + w.rnd.IntN(3)))
	topic := w.topics[name]
	switch op := w.rnd.IntN(10); {
	case topic == nil:
		w.ids++
		topic = &walked{id: [16]byte{w.ids}, partitions: 1 + w.rnd.Int32N(4), profile: "sync", epochs: map[int32]int32{}}
		w.topics[name] = topic
		w.topic(name, topic.id, topic.partitions)
	case op < 3:
		w.delete(name, topic.id, topic.partitions)
		delete(w.topics, name)
	case op < 5:
		topic.partitions++
		w.put(metadata.TopicKey(topic.id), metadata.TopicRecord{Name: name, Partitions: topic.partitions}.Encode())
		w.partition(topic.id, topic.partitions-1, metadata.Partition{Leader: self, Replicas: []int32{self}, ISR: []int32{self}})
	case op < 6:
		topic.profile = []string{"sync", "os", "interval"}[w.rnd.IntN(3)]
		w.put(metadata.TopicConfigKey(topic.id), metadata.EncodeConfigs(map[string]string{"profile": topic.profile}))
	case op < 7:
		i := w.rnd.Int32N(topic.partitions)
		topic.epochs[i]++
		must(t, w.change(metadata.TopicPartition{Topic: topic.id, Partition: i}, func(p *metadata.Partition) { p.LeaderEpoch++ }))
	case op < 8:
		dir := []string{"/d/*", "/e/*"}[w.rnd.IntN(2)]
		w.gates = append(w.gates, hold(t, errs, []errfs.Op{errfs.Rename, errfs.Mkdir}[w.rnd.IntN(2)], dir))
	case op < 9 && len(w.gates) > 0:
		w.gates[0].open()
		w.gates = w.gates[1:]
	default:
		if f := w.faults[w.rnd.IntN(len(w.faults))]; w.rnd.IntN(2) == 0 {
			f.On()
		} else {
			f.Off()
		}
	}
}

// endFaults ends all faults.
func (w *walk) endFaults() {
	for _, g := range w.gates {
		g.open()
	}
	for _, f := range w.faults {
		f.Off()
	}
}

// differs returns how a broker differs from the metadata of the walk, "" if it does not.
func (w *walk) differs(l life) string {
	want := map[string]bool{}
	w.mu.Lock()
	img := w.image
	w.mu.Unlock()
	for t := range img.Tombstones() {
		return "the tombstone of " + t.Name + " is there"
	}
	for name, topic := range w.topics {
		for i := range topic.partitions {
			want[fmt.Sprintf("%x-%d", topic.id, i)] = true
			p, err := l.Partition(topic.id, i)
			if err != nil {
				return err.Error()
			}
			if p.String() != fmt.Sprintf("%s-%d", name, i) {
				return p.String() + " has another name"
			}
			if leader, epoch := p.Leader(); leader != self || epoch != topic.epochs[i] {
				return fmt.Sprintf("%s is led by %d in epoch %d, want %d", p, leader, epoch, topic.epochs[i])
			}
			if got := p.Log().Config().Profile.Name; got != topic.profile {
				return fmt.Sprintf("%s has profile %s, want %s", p, got, topic.profile)
			}
			if dir, _ := img.Placement(self, metadata.TopicPartition{Topic: topic.id, Partition: i}); dir != p.Log().Dir().ID() {
				return p.String() + ": its directory is not recorded"
			}
		}
	}
	if n := len(l.Partitions()); n != len(want) {
		return fmt.Sprintf("%d partitions, want %d", n, len(want))
	}
	for _, log := range l.storage.Logs() {
		delete(want, fmt.Sprintf("%x-%d", log.ID().Topic, log.ID().Partition))
	}
	if n := len(l.storage.Logs()); n != len(l.Partitions()) || len(want) > 0 {
		return fmt.Sprintf("%d logs, without %v", n, slices.Collect(maps.Keys(want)))
	}
	return ""
}

// Images follow each other at random while disks fail and block. Apply waits for none of that. When
// the disks work again, every partition of the last image has its log, role and configuration, and
// nothing is left of deleted topics, also after the next start.
func TestRandomImagesOverDisksThatFailAndHang(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			mem := vfs.Memory()
			errs := errfs.New(mem)
			//nolint:gosec // repeatable
			w := &walk{cluster: newCluster(), rnd: rand.New(rand.NewPCG(seed, 4)), topics: map[string]*walked{}}
			for _, path := range []string{"/d/x-*", "/e/y-*", "/?/?-1", "/d/*"} {
				f := errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: path, Err: syscall.EMFILE})
				f.Off()
				w.faults = append(w.faults, f)
			}
			l := twoDirs(t, errs, w.cluster)
			for range 60 {
				w.step(t, errs)
				if w.rnd.IntN(3) > 0 {
					must(t, w.show(t, l.Manager))
				}
				if w.rnd.IntN(5) == 0 {
					l.retry(time.Now().Add(time.Hour))
				}
			}
			w.endFaults()
			converge(t, w, l)
			for _, p := range l.Partitions() {
				grow(t, p)
			}
			must(t, l.Close(t.Context()))
			must(t, l.storage.Close())
			l = twoDirs(t, mem, w.cluster)
			if left := w.image.NumTopics(); left != 0 {
				t.Fatal("the harness starts with an empty image")
			}
			converge(t, w, l)
			if n := len(w.raised); n != 0 {
				t.Errorf("epochs were raised %d times after a clean stop", n)
			}
		})
	}
}

// converge applies images until a broker matches the metadata.
func converge(t *testing.T, w *walk, l life) {
	t.Helper()
	last := errors.New("nothing was compared")
	for begun := time.Now(); last != nil; {
		if time.Since(begun) > patience {
			t.Fatal(last)
		}
		must(t, w.apply(t, l.Manager))
		l.retry(time.Now().Add(time.Hour))
		if last = nil; w.differs(l) != "" {
			last = errors.New(w.differs(l))
		}
	}
}
