package storage

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

func testConfig(t *testing.T, profile string) Config {
	t.Helper()
	set, err := durability.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	p, err := set.Lookup(profile)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Profile: p, Segment: segment.Limits{Bytes: 1 << 20, Ms: 1 << 40, IndexInterval: 4096, IndexBytes: 10 << 20}}
}

type sink chan *Append

func (s sink) Numbered(a *Append) { s <- a }

func batch(t *testing.T, n int, value string) []byte {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{})
	for range n {
		b.Append(time.Now().UnixMilli(), nil, []byte(value), nil)
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func waitEnd(t *testing.T, l *Log, end int64) {
	t.Helper()
	for i := 0; l.AckEnd() < end; i++ {
		if i > 5000 {
			t.Fatalf("ack end %d, want %d: %v", l.AckEnd(), end, l.Err())
		}
		time.Sleep(time.Millisecond)
	}
}

func TestSmoke(t *testing.T) {
	for _, profile := range []string{"sync", "os", "interval", "high"} {
		t.Run(profile, func(t *testing.T) {
			fs := vfs.Memory()
			cfg := testConfig(t, profile)
			opt := Options{FS: fs, JournalFileSize: 1 << 20, Config: func(string, ID) Config { return cfg }}
			m, err := Open([]Place{{Path: "/d"}}, opt)
			if err != nil {
				t.Fatal(err)
			}
			id := ID{Topic: [16]byte{1}, Partition: 0}
			logs, err := m.Create([]Spec{{ID: id, Topic: "t", Config: cfg}})
			if err != nil {
				t.Fatal(err)
			}
			l := logs[0]
			s := make(sink, 1)
			for i := range 2000 {
				l.Append(&Append{Batches: batch(t, 3, "hello world"), Sink: s})
				a := <-s
				if a.Err != nil || a.Base != int64(3*i) || a.Next != a.Base+3 {
					t.Fatalf("append %d: %+v", i, a)
				}
			}
			waitEnd(t, l, 6000)
			read := func(l *Log) {
				t.Helper()
				at := int64(0)
				for at < 6000 {
					s, err := l.Read(at, 6000, 10000, true)
					if err != nil || s.Size == 0 {
						t.Fatalf("read %d: %d bytes, %v", at, s.Size, err)
					}
					for _, p := range s.Parts {
						for len(p) > 0 {
							b, rest, err := record.Next(p)
							if err != nil || b.BaseOffset() != at || b.CheckCRC() != nil {
								t.Fatalf("at %d: batch %d, %v", at, b.BaseOffset(), err)
							}
							at = b.LastOffset() + 1
							p = rest
						}
					}
					s.Release()
				}
			}
			read(l)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			if m, err = Open([]Place{{Path: "/d"}}, opt); err != nil {
				t.Fatal(err)
			}
			if !m.Dirs()[0].Clean() {
				t.Error("not clean")
			}
			l = m.Get(id)
			if e := l.Ends(); e.LogEnd != 6000 {
				t.Fatalf("%+v", e)
			}
			read(l)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
