package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/vfs"
)

// goldenFile compares got with a file in testdata.
func goldenFile(t *testing.T, name, got string) {
	t.Helper()
	golden.File(t, filepath.Join("testdata", name), got, "go test ./internal/storage/journal")
}

func testHeader() header {
	return header{seq: 7, salt: 0x1122334455667788, first: 42, id: testID, capacity: 64 << 10}
}

// testFile returns a file with a header and one write of three frames.
func testFile() []byte {
	h := testHeader()
	b := make([]byte, dataStart, dataStart+block)
	copy(b, h.encode())
	copy(b[secondHeader:], h.encode())
	s := NewStream(StreamID{Topic: [16]byte{0xaa, 0xbb}, Partition: 3})
	for i, payload := range []string{"first", "", strings.Repeat("x", 200)} {
		e := &Entry{Stream: s, Type: Batches, Payload: []byte(payload), PrevEnd: int64(i), NextEnd: int64(i + 1),
			LSN: LSN(42 + i), Carried: i == 1}
		at := len(b)
		b = append(b, make([]byte, frameHeader)...)
		putFrame(b[at:], e, h.salt, 41, i == 2)
		b = append(b, payload...)
		b = append(b, make([]byte, align(int64(len(b)), 8)-int64(len(b)))...)
	}
	return append(b, make([]byte, align(int64(len(b)), block)-int64(len(b)))...)
}

// testTypes are entries of each type, by the name of the type in the drawing.
func testTypes() map[string]*Entry {
	s := NewStream(StreamID{Topic: [16]byte{0xaa, 0xbb}, Partition: 3})
	return map[string]*Entry{
		"batches": {Stream: s, Type: Batches, Payload: []byte("first"), PrevEnd: 4, NextEnd: 5, LSN: 45, Carried: true},
		"gap":     {Stream: s, Type: Gap, Epoch: 7, PrevEnd: 5, NextEnd: 9, LSN: 46},
		"skip":    {Stream: &Stream{}, Type: Skip, NextEnd: 3 * block, LSN: 47},
	}
}

// drawing returns the drawing in format.go, as lines without the marks of a comment.
func drawing(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("format.go")
	ok(t, err)
	return strings.ReplaceAll(string(source), "\n//\t", "\n")
}

// layout encodes what the drawing has under a name, up to a payload, with a crc of b from the 9th
// byte to its end.
func layout(t *testing.T, name string, values map[string]any, b []byte) (coded []byte) {
	t.Helper()
	_, text, _ := strings.Cut(drawing(t), "\n"+name+": ")
	text = regexp.MustCompile(`\n\S`).Split(text, 2)[0]
	values["0"], values["crc"] = 0, crc32.Checksum(b[8:], castagnoli)
	for _, m := range regexp.MustCompile(`([\w ]+?) ([ui])?(\d+)(?: \([\w ]+\))?\s+(?:\||$)`).FindAllStringSubmatch(text+" ", -1) {
		v, known := values[strings.TrimSpace(m[1])]
		bits, err := strconv.Atoi(m[3])
		ok(t, err)
		switch id, isID := v.([16]byte); {
		case !known:
			t.Fatalf("format.go, %s: an unknown field %q", name, m[1])
		case isID && m[2] == "":
			coded = append(coded, id[:bits]...)
		default:
			n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
			ok(t, err)
			coded = append(coded, binary.LittleEndian.AppendUint64(nil, uint64(n))[:bits/8]...)
		}
	}
	return coded
}

// The drawing of the layout is true to the byte, and has all types of frames.
func TestLayoutIsAsDrawn(t *testing.T) {
	h := testHeader()
	b := h.encode()[:headerLen]
	want := layout(t, "header", map[string]any{"magic": headerMagic, "version": formatVersion, "file sequence": h.seq, "salt": h.salt,
		"first LSN": h.first, "journal id": h.id, "capacity": h.capacity}, b)
	if !bytes.Equal(b, want) {
		t.Errorf("header\n%swant\n%s", hex.Dump(b), hex.Dump(want))
	}
	var types []string
	for name, e := range testTypes() {
		types = append(types, fmt.Sprint(e.Type, " ", name))
		b := make([]byte, frameHeader)
		putFrame(b, e, h.salt, 41, true)
		flags := flagLast
		if e.Carried {
			flags |= flagCarried
		}
		want := layout(t, "frame", map[string]any{"magic": frameMagic, "payload length": len(e.Payload), "type": e.Type, "flags": flags,
			"salt": h.salt, "LSN": e.LSN, "durableThrough": 41, "topic id": e.Stream.id.Topic, "partition": e.Stream.id.Partition,
			"epoch": e.Epoch, "prevEnd": e.PrevEnd, "nextEnd": e.NextEnd}, append(b[:frameHeader:frameHeader], e.Payload...))
		if !bytes.Equal(b, want) {
			t.Errorf("%s\n%swant\n%s", name, hex.Dump(b), hex.Dump(want))
		}
	}
	slices.Sort(types)
	var drawn []string
	for _, m := range regexp.MustCompile(`(?m)^(?:type:)? +(\d) (\w+) \(`).FindAllStringSubmatch(drawing(t), -1) {
		drawn = append(drawn, m[1]+" "+m[2])
	}
	if !slices.Equal(types, drawn) {
		t.Errorf("types %v, drawn are %v", types, drawn)
	}
}

// A file of another version is refused, so these bytes may change only together with formatVersion.
func TestFormatIsFixed(t *testing.T) {
	b := testFile()
	frameBytes := bytes.TrimRight(b[dataStart:], "\x00")
	dump := hex.Dump(b[:headerLen]) + hex.Dump(frameBytes) + fmt.Sprintf("zeros up to %d\n", len(b))
	types := testTypes()
	for _, name := range slices.Sorted(maps.Keys(types)) {
		e := types[name]
		f := make([]byte, frameHeader)
		putFrame(f, e, testHeader().salt, 41, true)
		dump += name + "\n" + hex.Dump(append(f, e.Payload...))
		if back, valid := parseFrame(append(f, e.Payload...), testHeader().salt); !valid || back.Type != e.Type ||
			back.Epoch != e.Epoch || back.NextEnd != e.NextEnd || back.Skips() != (e.Type == Skip) {
			t.Errorf("%s reads back as %+v, %v", name, back, valid)
		}
	}
	goldenFile(t, "file.hex", dump)
	fsys := fileSystem(t, 7, b)
	all, ext, err := frames(fsys, Position{File: 7, LSN: 42})
	ok(t, err)
	if len(all) != 3 || ext.Next != 45 || string(all[0].Payload) != "first" || !all[1].Carried || len(all[2].Payload) != 200 {
		t.Errorf("read back: %v %+v", all, ext)
	}
	if all[0].DurableThrough != 41 || all[0].Stream.Partition != 3 || all[0].Stream.Topic[1] != 0xbb || all[2].NextEnd != 3 {
		t.Errorf("first frame: %+v", all[0])
	}
}

func fileSystem(t testing.TB, seq uint64, content []byte) vfs.FS {
	t.Helper()
	m := memory(t)
	f, err := m.Create(testDir + "/" + fileName(seq))
	ok(t, err)
	_, err = f.WriteAt(content, 0)
	ok(t, err)
	ok(t, f.Close())
	return m
}

func TestHeaderSurvivesTheLossOfOneCopy(t *testing.T) {
	for _, at := range []int{0, secondHeader} {
		b := testFile()
		b[at+20] ^= 1
		if all, _, err := frames(fileSystem(t, 7, b), Position{File: 7, LSN: 42}); err != nil || len(all) != 3 {
			t.Errorf("copy at %d damaged: %d frames, %v", at, len(all), err)
		}
	}
}

func TestOtherVersionsAreRefusedByName(t *testing.T) {
	for _, version := range []byte{1, 2, formatVersion + 1} {
		b := testFile()
		h := testHeader()
		e := h.encode()
		e[8] = version
		sealHeader(e)
		copy(b, e)
		_, _, err := frames(fileSystem(t, 7, b), Position{File: 7, LSN: 42})
		want := fmt.Sprintf("version %d, this program reads version 3; start the version that wrote it", version)
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), want) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// The checksum covers every bit of a frame: flipping any bit makes the frame invalid.
func TestAnyFlippedBitIsSeen(t *testing.T) {
	whole := testFile()[dataStart:]
	if _, valid := parseFrame(whole, testHeader().salt); !valid {
		t.Fatal("the frame is not valid to begin with")
	}
	size, _ := frameLen(whole)
	for i := range size * 8 {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		if _, valid := parseFrame(b, testHeader().salt); valid {
			t.Errorf("bit %d flipped and the frame still counts", i)
		}
	}
	if _, valid := parseFrame(whole, testHeader().salt+1); valid {
		t.Error("a frame of another life counts")
	}
}

func TestQuarantinedFrameReadsBack(t *testing.T) {
	f := Frame{Stream: StreamID{Partition: 9}, Type: Batches, LSN: 5, PrevEnd: 1, NextEnd: 2, Payload: []byte("aside")}
	b := f.Encode(nil)
	got, valid := parseFrame(b, 0)
	if !valid || len(b) != frameHeader+5 || string(got.Payload) != "aside" || got.LSN != 5 || got.Stream != f.Stream {
		t.Errorf("got %+v, %d, %v", got, len(b), valid)
	}
}

func FuzzHeader(f *testing.F) {
	h := testHeader()
	f.Add(h.encode())
	f.Add([]byte("CJH1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, valid, err := decodeHeader(b)
		if !valid || err != nil {
			return
		}
		if again := h.encode(); !bytes.Equal(again[40:64], b[40:64]) || !bytes.Equal(again[16:40], b[16:40]) {
			t.Errorf("%x reads as %+v", b[:headerLen], h)
		}
	})
}

func FuzzFrame(f *testing.F) {
	f.Add(testFile()[dataStart:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, valid := parseFrame(b, testHeader().salt)
		if !valid {
			return
		}
		n := frameHeader + len(fr.Payload)
		if size, _ := frameLen(b); n > len(b) || int64(n) != size || !crcMatches(b[:n]) {
			t.Errorf("%d of %d bytes taken for a frame", n, len(b))
		}
	})
}

// For any file content, a scan neither panics nor takes more memory than the file's size, and
// returns only frames that were written.
func FuzzScan(f *testing.F) {
	f.Add(testFile(), uint16(0), byte(0))
	f.Add(testFile(), uint16(100), byte(1))
	f.Add(testFile()[:dataStart+100], uint16(8), byte(255))
	f.Fuzz(func(t *testing.T, b []byte, at uint16, flip byte) {
		if len(b) > 1<<20 {
			return
		}
		if i := dataStart + int(at); i < len(b) {
			b[i] ^= flip
		}
		fsys := fileSystem(t, 7, b)
		r := &reader{fs: fsys, dir: testDir, id: testID}
		_, _ = scan(r, Position{File: 7, LSN: 42}, func(fr Frame) error {
			if !frameIn(b, &fr) {
				t.Errorf("frame %d is not in the file", fr.LSN)
			}
			return nil
		})
		if cap(r.win.Buf) > len(b) {
			t.Errorf("%d bytes of memory for a file of %d", cap(r.win.Buf), len(b))
		}
	})
}
