package storage

import (
	"encoding/binary"
	"errors"
	"testing"
)

// A lookup by time finds a record before the damage of its segment, and reports the damage if its
// answer may be beyond it.
func TestALookupByTimeBeforeDamage(t *testing.T) {
	l := damagedAt(t, 5, 8, binary.BigEndian.AppendUint32(nil, 1<<30)) // the length of a batch
	if got, err := l.FindTime(1, 20); err != nil || got.Offset != 0 {
		t.Errorf("before the damage: %+v, %v", got, err)
	}
	if got, err := l.FindTime(1<<60, 20); !errors.Is(err, ErrCorrupt) {
		t.Errorf("beyond the damage: %+v, %v", got, err)
	}
}
