package statelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

const lastLog = "0000000000000002.log"

// written returns the files of a log after a clean stop, with records in snapshot and log.
func written(t testing.TB) map[string][]byte {
	t.Helper()
	fsys := vfs.Memory()
	o := own(t, Options{FS: fsys, Dir: "/s"})
	must(t, o.add("old"))
	must(t, o.Close())
	o = own(t, Options{FS: fsys, Dir: "/s"})
	must(t, o.add("a"))
	must(t, o.add("b", "c"))
	must(t, o.Close())
	return files(t, fsys, "/s")
}

const held = "old,a,b,c"

func files(t testing.TB, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	all, err := fsys.List(dir)
	must(t, err)
	m := map[string][]byte{}
	for _, info := range all {
		m[info.Name], err = vfs.ReadFile(fsys, path.Join(dir, info.Name))
		must(t, err)
	}
	return m
}

// A read that returns fewer bytes than the file has is an error, not a torn end: the missing bytes
// may hold transactions that were acknowledged.
func TestAShortReadIsNotATornEnd(t *testing.T) {
	content := written(t)
	for short := range len(content[lastLog]) {
		fsys := errfs.New(with(t, content))
		fsys.Add(errfs.Rule{Ops: errfs.Read, Path: "/s/" + lastLog, Short: short, Err: io.EOF})
		got, c, err := readList(fsys, "/s")
		if err == nil && (got != held || c.Torn > 0) || errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes of %d were read: %q, torn %d, %v", short, len(content[lastLog]), got, c.Torn, err)
		}
	}
}

func clone(files map[string][]byte) map[string][]byte {
	m := map[string][]byte{}
	for name, p := range files {
		m[name] = bytes.Clone(p)
	}
	return m
}

func with(t testing.TB, files map[string][]byte) vfs.FS {
	t.Helper()
	fsys := vfs.Memory()
	must(t, fsys.MkdirAll("/s"))
	for name, content := range files {
		writeFile(t, fsys, path.Join("/s", name), content)
	}
	return fsys
}

// tryOpen opens a copy of the files and returns its content or the error. On an error nothing may
// have changed.
func tryOpen(t testing.TB, content map[string][]byte) (string, error) {
	t.Helper()
	fsys := with(t, content)
	o, err := tryOwn(Options{FS: fsys, Dir: "/s"})
	if err == nil {
		return o.String(), nil
	}
	for name, p := range files(t, fsys, "/s") {
		if !bytes.Equal(content[name], p) {
			t.Errorf("%s was changed by an open that failed with %v", name, err)
		}
	}
	return "", err
}

// After a clean stop every flipped bit is detected, even in the last record.
func TestEveryFlippedBitIsFound(t *testing.T) {
	whole := written(t)
	if len(whole) != 2 {
		t.Fatalf("files: %v", whole)
	}
	for name, p := range whole {
		for i := range 8 * len(p) {
			broken := clone(whole)
			broken[name][i/8] ^= 1 << (i % 8)
			got, err := tryOpen(t, broken)
			switch {
			case err == nil && got != held:
				t.Fatalf("%s with bit %d of byte %d flipped opens as %s", name, i%8, i/8, got)
			case err == nil && (name != lastLog || i/8 < len(p)-frameSize):
				t.Fatalf("bit %d of byte %d of %s flipped unnoticed", i%8, i/8, name)
			case err != nil && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), name)):
				t.Fatalf("bit %d of byte %d of %s: %v, want damage of that file", i%8, i/8, name, err)
			}
		}
	}
}

// A log that ends early is the result of a crash: the records appended before the end survive, and
// none of the truncated Append.
func TestATruncatedLogKeepsTheRecordsBeforeTheCut(t *testing.T) {
	whole := written(t)
	steps := []string{"old", "old,a", held}
	at := 0
	for n := headerSize; n <= len(whole[lastLog]); n++ {
		cut := clone(whole)
		cut[lastLog] = cut[lastLog][:n]
		got, err := tryOpen(t, cut)
		if err == nil && at+1 < len(steps) && got == steps[at+1] {
			at++
		}
		if err != nil || got != steps[at] {
			t.Fatalf("cut at %d: %q, %v; want %s", n, got, err, steps[at])
		}
	}
	if steps[at] != held {
		t.Errorf("the whole log opens as %s", steps[at])
	}
}

func TestGarbageAfterTheLogIsIgnoredUnlessItWasClosed(t *testing.T) {
	for _, garbage := range []string{frameMagic, "x", strings.Repeat("\x00", 1000), strings.Repeat(frameMagic, readAhead/2)} {
		m := written(t)
		closed := m[lastLog]
		m[lastLog] = append(bytes.Clone(closed[:len(closed)-frameSize]), garbage...)
		if got, err := tryOpen(t, m); got != held || err != nil {
			t.Errorf("%d bytes of garbage behind the log: %s, %v", len(garbage), got, err)
		}
		m[lastLog] = append(closed, garbage...)
		if _, err := tryOpen(t, m); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes of garbage behind a closed log: %v", len(garbage), err)
		}
	}
}

// A valid frame is found behind any amount of garbage. A torn write is not followed by a valid
// frame.
func TestAValidFrameBehindGarbageIsDamage(t *testing.T) {
	m := written(t)
	id, err := testFormat.parseHeader(m[lastLog], kindLog)
	must(t, err)
	for n := readAhead - 40; n < readAhead+10; n++ {
		p := append(bytes.Clone(m[lastLog][:headerSize]), make([]byte, n)...)
		m[lastLog] = id.appendFrame(p, frame{kind: frameRecords, sequence: 9, payload: appendRecord(nil, []byte("x"))})
		if _, err := tryOpen(t, m); !errors.Is(err, ErrDamaged) {
			t.Fatalf("valid frame behind %d bytes of garbage: %v", n, err)
		}
	}
}

// A valid checksum does not prove that the frame continues the log.
func TestAFrameThatDoesNotContinueTheLogIsDamage(t *testing.T) {
	whole := written(t) // record 1 in the snapshot, 2 to 4 in the log
	item := appendRecord(nil, []byte("x"))
	for name, c := range map[string]struct {
		log  bool
		f    []frame
		want bool
	}{
		"the next record":                {true, []frame{{frameRecords, 2, item}, {frameClosed, 2, nil}}, true},
		"a gap":                          {true, []frame{{frameRecords, 3, item}}, false},
		"a repetition":                   {true, []frame{{frameRecords, 2, item}, {frameRecords, 2, item}}, false},
		"a short payload":                {true, []frame{{frameRecords, 2, []byte{2, 'x'}}}, false},
		"an overlong length":             {true, []frame{{frameRecords, 2, bytes.Repeat([]byte{0xff}, 11)}}, false},
		"closed at another record":       {true, []frame{{frameClosed, 2, nil}}, false},
		"closed with a payload":          {true, []frame{{frameClosed, 1, item}}, false},
		"a frame of a snapshot":          {true, []frame{{frameState, 2, item}}, false},
		"a snapshot":                     {false, []frame{{frameState, 1, item}, {frameEnd, 1, []byte{1}}}, true},
		"no end":                         {false, []frame{{frameState, 1, item}}, false},
		"an end of more":                 {false, []frame{{frameState, 1, item}, {frameEnd, 1, []byte{2}}}, false},
		"an end that is not all":         {false, []frame{{frameEnd, 1, []byte{0}}, {frameState, 1, item}}, false},
		"an end with more than a number": {false, []frame{{frameState, 1, item}, {frameEnd, 1, []byte{1, 0}}}, false},
		"a frame of a log":               {false, []frame{{frameRecords, 1, item}, {frameEnd, 1, []byte{1}}}, false},
	} {
		file, kind, m := "0000000000000002.snapshot", byte(kindSnapshot), clone(whole)
		if c.log {
			file, kind = lastLog, kindLog
		} else {
			m[lastLog] = m[lastLog][:headerSize]
		}
		id, err := testFormat.parseHeader(m[file], kind)
		must(t, err)
		p := m[file][:headerSize]
		for _, f := range c.f {
			p = id.appendFrame(p, f)
		}
		m[file] = p
		if _, err := tryOpen(t, m); errors.Is(err, ErrDamaged) == c.want || c.want && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissingFilesAreNamed(t *testing.T) {
	whole := written(t)
	for name := range whole {
		m := clone(whole)
		delete(m, name)
		var d *Damage
		if _, err := tryOpen(t, m); !errors.As(err, &d) || !d.Lost || path.Base(d.File) != name {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestFilesOfAnotherLogAreRefused(t *testing.T) {
	m := written(t)
	m[lastLog] = written(t)[lastLog]
	if _, err := tryOpen(t, m); !errors.Is(err, ErrDamaged) {
		t.Errorf("a log of another id: %v", err)
	}
	for name, p := range written(t) {
		copy(p, "another!")
		binary.LittleEndian.PutUint32(p[44:], crc32.Checksum(p[:44], castagnoli))
		m := written(t)
		m[name] = p
		if _, err := tryOpen(t, m); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s of another owner: %v", name, err)
		}
	}
}

func TestANewerFormatIsRefused(t *testing.T) {
	for name := range written(t) {
		m := written(t)
		h := m[name]
		binary.LittleEndian.PutUint16(h[10:], testFormat.Version+1)
		binary.LittleEndian.PutUint32(h[44:], crc32.Checksum(h[:44], castagnoli))
		if _, err := tryOpen(t, m); !errors.Is(err, ErrNewerFormat) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s of a newer format: %v", name, err)
		}
		if err := Peek(with(t, m), "/s", testFormat); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("peek at %s of a newer format: %v", name, err)
		}
	}
	if err := Peek(with(t, written(t)), "/s", testFormat); err != nil {
		t.Errorf("peek: %v", err)
	}
}
