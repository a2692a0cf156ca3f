package link

import (
	"fmt"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
)

// Exact bytes of the handshake, so that no change of the format goes unnoticed.
func TestFormatIsFixed(t *testing.T) {
	here := &Hello{
		Identity: Identity{ClusterName: "name", ClusterID: "id", Generation: [16]byte{0xa1, 15: 0xa2}, Node: 1, Member: 2,
			BrokerEpoch: 3, FeatureLevel: 4, Address: "a:1"},
		Lane: Data, Process: 5, Attempt: 6, Dialer: 7, MinVersion: 1, MaxVersion: 2, Secured: true, nonce: [nonceSize]byte{0xb1, 31: 0xb2},
	}
	there := &Hello{Identity: Identity{BrokerEpoch: -1}, Lane: Meta}
	bound := []byte("keying material")
	got := fmt.Sprintf("request %x\n\nhello %x\n\naccepts %x\n\ndials %x\n\nclient %x\n", request(here), there.appendTo(nil),
		seal(shared, here, there, bound), dials(shared, here, there, bound), bob.encode())
	golden.File(t, "testdata/handshake.hex", got, "go test ./internal/link -run FormatIsFixed")
}
