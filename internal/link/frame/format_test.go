package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// drawn encodes a value as the comment of its AppendTo draws it.
func drawn(t *testing.T, source string, value any) (coded []byte) {
	t.Helper()
	v := reflect.Indirect(reflect.ValueOf(value))
	m := regexp.MustCompile(`// AppendTo .*\n//\n((?://\t.*\n)+)func \(\w \*?` + v.Type().Name() + `\) AppendTo`).FindStringSubmatch(source)
	if m == nil {
		t.Fatalf("the comment of AppendTo of %s draws nothing", v.Type().Name())
	}
	line := strings.TrimSpace(strings.ReplaceAll(m[1], "//\t", " "))
	for part := range strings.SplitSeq(line, "|") {
		words := strings.Fields(part)
		width := words[len(words)-1]
		bits, err := strconv.Atoi(strings.TrimLeft(width, "ui"))
		must.OK(t, err)
		name := strings.Join(words[:len(words)-1], "")
		field := v.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
		number := uint64(0)
		switch {
		case name == "zeros":
			coded = append(coded, make([]byte, bits)...)
			continue
		case !field.IsValid():
			t.Fatalf("%s has no field %q", v.Type().Name(), name)
		case field.Kind() == reflect.Array:
			id := field.Interface().([16]byte)
			coded = append(coded, id[:bits]...)
			continue
		case field.Kind() == reflect.Bool && field.Bool():
			number = 1
		case field.CanUint():
			number = field.Uint()
		case field.CanInt():
			number = uint64(field.Int())
		}
		if signed := strings.HasPrefix(width, "i"); signed != field.CanInt() {
			t.Errorf("%s: %s is drawn as %s", v.Type().Name(), name, width)
		}
		coded = append(coded, binary.BigEndian.AppendUint64(nil, number)[8-bits/8:]...)
	}
	return coded
}

// Exact bytes of the payload of every kind of frame, so that no change of the format goes
// unnoticed. The header and the frames of the handshake have tests of their own.
func TestFormatIsFixed(t *testing.T) {
	topic, dir := [16]byte{0xa1, 15: 0xa2}, [16]byte{0xd1, 15: 0xd2}
	payloads := map[Kind]interface{ AppendTo([]byte) []byte }{
		RQ: Piece{ID: 1, Offset: 2, Total: 3, Method: 4, Timeout: 5},
		RS: Piece{ID: 1, Total: 3, Method: 4},
		MS: Piece{Total: 3, Method: 4},
		SB: &Subscription{Slot: 1, Topic: topic, Partition: 2, LeaderEpoch: 3, Directory: dir, LastEpoch: 4, LogEnd: 9, LogStart: 5,
			Written: 8, Durable: 7, WriteThrough: true, Serial: 10},
		VD: Verdict{Slot: 1, Decision: Diverged, Epoch: 2, Offset: 3},
		DA: &Data{Slot: 1, LeaderEpoch: 6, PrevEnd: 2, NextEnd: 3, High: 4, LogStart: 5, GapEpoch: 6},
		HW: High{Slot: 1, LeaderEpoch: 2, High: 3, LogStart: 4},
		AK: Ack{Slot: 1, LeaderEpoch: 2, Written: 4, Durable: 3},
		OF: Offline{Slot: 1, Cause: EpochAhead},
		LS: Start{Slot: 1, LogStart: 2},
		US: End{Slot: 1, Cause: Removed},
		SY: Sync{Slot: 1, LeaderEpoch: 2, End: 3},
		PR: Producers{Slot: 1, Offset: 2},
	}
	source := ""
	for _, name := range []string{"payload.go", "piece.go"} {
		text, err := os.ReadFile(name)
		must.OK(t, err)
		source += string(text)
	}
	var b strings.Builder
	for _, k := range kinds() {
		p := payloads[k]
		switch k {
		case HE, PF, RY, NO, CL, PG:
		default:
			if p == nil {
				t.Errorf("no payload of %s", k)
				continue
			}
			got := p.AppendTo(nil)
			fmt.Fprintf(&b, "%s %x\n\n", k, got)
			if want := drawn(t, source, p); !bytes.Equal(got, want) {
				t.Errorf("%s is % x, and drawn as % x", k, got, want)
			}
		}
	}
	golden.File(t, "testdata/frames.hex", strings.TrimSuffix(b.String(), "\n"), "go test ./internal/link/frame -run FormatIsFixed")
}
