package record

import (
	"errors"
	"testing"
)

// A block of size 0 that claims to be stored is no end mark for every client, so no batch may have
// one.
func TestAnEmptyStoredBlockEndsNoFrame(t *testing.T) {
	frame := []byte("\x04\"M\x18`p\x73\x03\x00\x00\x80abc\x00\x00\x00\x00")
	if got, err := inflateAll(Lz4, frame, 100); err != nil || string(got) != "abc" {
		t.Fatalf("%q, %v", got, err)
	}
	frame[len(frame)-1] = 0x80
	if _, err := inflateAll(Lz4, frame, 100); !errors.Is(err, errLz4Size) {
		t.Errorf("an empty stored block: %v", err)
	}
}
