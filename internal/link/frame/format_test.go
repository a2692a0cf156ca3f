package frame

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
)

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
			fmt.Fprintf(&b, "%s %x\n\n", k, p.AppendTo(nil))
		}
	}
	golden.File(t, "testdata/frames.hex", strings.TrimSuffix(b.String(), "\n"), "go test ./internal/link/frame -run FormatIsFixed")
}
