package broker

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/vfs"
)

// witness is a file system that knows which marked records a datasync has covered: those that were
// written through a file before its datasync began.
type witness struct {
	vfs.FS
	mu      sync.Mutex
	durable map[string]bool
}

// mark must match in a record's value for the record to be tracked.
var mark = regexp.MustCompile(`<record [0-9-]+>`)

func (w *witness) Open(name string) (vfs.File, error) {
	f, err := w.FS.Open(name)
	return &witnessed{File: f, w: w, blocks: map[int64]*witnessedBlock{}}, err
}

func (w *witness) Create(name string) (vfs.File, error) {
	f, err := w.FS.Create(name)
	return &witnessed{File: f, w: w, blocks: map[int64]*witnessedBlock{}}, err
}

func (w *witness) covers(marked string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.durable[marked]
}

// witnessed remembers the blocks of a file, because a record may be in several writes.
type witnessed struct {
	vfs.File
	w      *witness
	blocks map[int64]*witnessedBlock // by number; guarded by w.mu
}

const witnessBlock = 4 << 10

type witnessedBlock struct {
	bytes [witnessBlock]byte
	state blockState
}

type blockState uint8

const (
	blockWritten blockState = iota
	blockSyncing            // before the datasync that runs
	blockSynced
)

func (f *witnessed) note(off int64, bufs ...[]byte) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for _, p := range bufs {
		for len(p) > 0 {
			b := f.blocks[off/witnessBlock]
			if b == nil {
				b = new(witnessedBlock)
				f.blocks[off/witnessBlock] = b
			}
			n := copy(b.bytes[off%witnessBlock:], p)
			b.state = blockWritten
			p, off = p[n:], off+int64(n)
		}
	}
}

func (f *witnessed) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.note(off, p[:n])
	return n, err
}

func (f *witnessed) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	n, err := f.File.WriteVecAt(bufs, off)
	if err == nil {
		f.note(off, bufs...)
	}
	return n, err
}

func (f *witnessed) Datasync() error {
	var covered []int64
	f.w.mu.Lock()
	for n, b := range f.blocks {
		if b.state == blockWritten {
			b.state = blockSyncing
			covered = append(covered, n)
		}
	}
	f.w.mu.Unlock()
	if err := f.File.Datasync(); err != nil {
		return err
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for _, n := range covered {
		if b := f.blocks[n]; b.state == blockSyncing {
			b.state = blockSynced
		}
	}
	for _, n := range covered {
		var around []byte // a mark is shorter than a block
		for i := n - 1; i <= n+1; i++ {
			if b := f.blocks[i]; b != nil && b.state == blockSynced {
				around = append(around, b.bytes[:]...)
			} else {
				around = append(around, 0)
			}
		}
		for _, m := range mark.FindAll(around, -1) {
			f.w.durable[string(m)] = true
		}
	}
	return nil
}

// TestI2NoAckBeforeTheSyncOfItsBytes counts calls through vfs. No acknowledgement of a synced
// profile reaches a client before a datasync has returned that began after the record was written,
// whatever the acks, the profile, the load and the partition. The same count must find early ones
// under profile os, or it would prove nothing.
func TestI2NoAckBeforeTheSyncOfItsBytes(t *testing.T) {
	const clients, each, pipelined, partitions = 12, 60, 4, 3
	for profile, synced := range map[string]bool{"sync": true, "low": true, "high": true, "os": false} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			disk := &witness{FS: vfs.Memory(), durable: map[string]bool{}}
			n := newNode(t, func(o *nodeOptions) { o.fs = disk })
			id := n.topic(t, "t", partitions, "chronik.durability.profile", profile)
			early := make([]int, clients)
			var wg sync.WaitGroup
			for c := range clients {
				w := n.dial(t)
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(c), 1))
					var sent []string
					last := produceRequest("", id, 1, nil)
					last.SetVersion(13)
					for i := range each {
						m := fmt.Sprintf("<record %d-%d>", c, i)
						req := produceRequest("", id, []int16{-1, 1}[rnd.IntN(2)],
							plain(t, m+string(bytes.Repeat([]byte{'x'}, rnd.IntN(9000)))))
						req.Topics[0].Partitions[0].Partition = int32(rnd.IntN(partitions))
						req.SetVersion(13)
						must(t, w.send(req))
						if sent = append(sent, m); len(sent) < pipelined && i < each-1 {
							continue
						}
						w.correlation -= int32(len(sent))
						for _, m := range sent {
							w.correlation++
							resp, err := w.receive(last)
							must(t, err)
							if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
								t.Errorf("%s: %+v", m, p)
							}
							if !disk.covers(m) {
								early[c]++
							}
						}
						sent = sent[:0]
					}
				})
			}
			wg.Wait()
			sum := 0
			for _, e := range early {
				sum += e
			}
			if synced && sum != 0 || !synced && sum == 0 {
				t.Errorf("%d of %d acknowledgements came before the sync of their bytes", sum, clients*each)
			}
		})
	}
}
