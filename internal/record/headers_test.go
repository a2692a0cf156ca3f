package record

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// batchOfRaw returns a compressed batch with one encoded record, which follows others in no window.
func batchOfRaw(t *testing.T, body []byte) Batch {
	t.Helper()
	return foreignRaw(t, Zstd, append(binary.AppendVarint(nil, int64(len(body))), body...), 1, nil)
}

// A batch of 3 kB with 7 million headers costs the bytes of its record, however it is read: a list
// of them would take 340 MB, and compaction would read them again and again.
func TestManyHeadersTakeNoMoreThanTheirBytes(t *testing.T) {
	const n = 7 << 20
	body := binary.AppendVarint([]byte{0, 0, 0, 2, 'k', 1}, n)
	b := batchOfRaw(t, append(body, make([]byte, 2*n)...))
	if len(b) > 64<<10 {
		t.Fatalf("the batch has %d bytes", len(b))
	}
	for name, read := range map[string]func() error{
		"each": func() error {
			return b.Each(Limits{}, func(r Record) error {
				if r.Headers.Len() != n || r.Headers.Size() != 2*n {
					t.Errorf("%d headers of %d bytes", r.Headers.Len(), r.Headers.Size())
				}
				for h := range r.Headers.All() {
					if len(h.Key) > 0 || h.Value == nil {
						t.Errorf("a header is %q: %q", h.Key, h.Value)
					}
					break
				}
				return nil
			})
		},
		"rewrite": func() error {
			again, err := b.Rewrite(Limits{}, NoHorizon, func(int32) bool { return true })
			if err == nil && again.Records() != 1 {
				t.Errorf("%d records", again.Records())
			}
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		must.OK(t, read())
		runtime.ReadMemStats(&after)
		// The window doubles until the record of 14 MiB fits; the rewritten one is as large.
		if n := after.TotalAlloc - before.TotalAlloc; n > 150<<20 {
			t.Errorf("%s: %d MiB allocated", name, n>>20)
		}
	}
}

// Headers are as they were after they were decoded, also those whose lengths take more bytes than
// necessary.
func TestHeadersAreReadAsTheyAre(t *testing.T) {
	want := []Header{{Key: []byte("a"), Value: []byte("x")}, {Key: []byte{}, Value: nil}, {Key: []byte("b"), Value: []byte{}}}
	body := append([]byte{0, 0, 0, 1, 1, 6}, 0x82, 0, 'a', 0x82, 0x80, 0, 'x', 0, 0x81, 0, 2, 'b', 0)
	b := batchOfRaw(t, body)
	same := func(x, y Header) bool {
		return bytes.Equal(x.Key, y.Key) && bytes.Equal(x.Value, y.Value) && (x.Value == nil) == (y.Value == nil)
	}
	again, err := b.Rewrite(Limits{}, NoHorizon, func(int32) bool { return true })
	must.OK(t, err)
	for _, b := range []Batch{b, again} {
		must.OK(t, b.Each(Limits{}, func(r Record) error {
			if got := slices.Collect(r.Headers.All()); !slices.EqualFunc(got, want, same) {
				t.Errorf("%q, want %q", got, want)
			}
			return nil
		}))
	}
}

// A length that ends behind its record makes the window move, and is an error.
func TestAHeaderThatEndsBehindItsRecord(t *testing.T) {
	for _, codec := range []Codec{None, Zstd} {
		raw := append([]byte{16, 0, 0, 0, 1, 1, 2, 0, 0x81}, 0)
		b := Batch(foreignRaw(t, codec, raw, 1, nil))
		if err := b.Each(Limits{}, func(Record) error { return nil }); err == nil {
			t.Errorf("%v: no error", codec)
		}
	}
}
