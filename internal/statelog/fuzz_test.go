package statelog

import (
	"errors"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
)

// For any content of the files, Read returns the content, damage or a newer format, and changes
// nothing. The content that it accepts is the same after the next start.
func FuzzRead(f *testing.F) {
	m := written(f)
	snapshot, log := m["0000000000000002.snapshot"], m[lastLog]
	f.Add(snapshot, log)
	f.Add(snapshot, log[:60])
	f.Add(snapshot[:headerSize+30], log)
	f.Add([]byte{}, []byte(testFormat.Magic))
	f.Fuzz(func(t *testing.T, snapshot, log []byte) {
		fsys := with(t, map[string][]byte{"0000000000000002.snapshot": snapshot, lastLog: log})
		got, c, err := readList(vfs.ReadOnly(fsys), "/s")
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewerFormat) {
				t.Fatal(err)
			}
			return
		}
		o := own(t, Options{FS: fsys, Dir: "/s"})
		must(t, o.Close())
		again, c2, err := readList(fsys, "/s")
		if again != got || err != nil || c2.Sequence != c.Sequence {
			t.Errorf("%q, %+v after a start: %q, %+v, %v", got, c, again, c2, err)
		}
	})
}

// FuzzFrame generates frames with right checksums, which FuzzRead rarely finds.
func FuzzFrame(f *testing.F) {
	f.Add(byte(frameRecords), uint64(5), appendRecord(nil, []byte("x")))
	f.Add(byte(frameClosed), uint64(4), []byte{})
	f.Add(byte(frameState), uint64(4), []byte{1, 'x'})
	f.Add(byte(frameRecords), uint64(5), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	m := written(f)
	f.Fuzz(func(t *testing.T, kind byte, sequence uint64, payload []byte) {
		for name, p := range m {
			fileKind := byte(kindLog)
			if name != lastLog {
				fileKind = kindSnapshot
			}
			id, err := testFormat.parseHeader(p, fileKind)
			must(t, err)
			broken := clone(m)
			end := frame{kind: frameEnd, sequence: sequence, payload: []byte{1}}
			broken[name] = id.appendFrame(id.appendFrame(p[:headerSize:headerSize], frame{kind, sequence, payload}), end)
			if _, _, err := readList(with(t, broken), "/s"); err != nil && !errors.Is(err, ErrDamaged) {
				t.Error(err)
			}
		}
	})
}

// A parsed payload can be encoded again.
func FuzzRecords(f *testing.F) {
	f.Add(appendRecord(appendRecord(nil, []byte("a")), nil))
	f.Fuzz(func(t *testing.T, p []byte) {
		var first, again list
		if eachRecord(p, first.Load) != nil {
			return
		}
		var back []byte
		for _, item := range first.items {
			back = appendRecord(back, []byte(item))
		}
		if err := eachRecord(back, again.Load); err != nil || !slices.Equal(first.items, again.items) {
			t.Errorf("%q comes back as %q, %v", first.items, again.items, err)
		}
	})
}
