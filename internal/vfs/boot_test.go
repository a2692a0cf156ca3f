package vfs

import "testing"

// Only a whole UUID is an identifier. The system has one, the same at each call.
func TestBootIDs(t *testing.T) {
	unknown := [16]byte{}
	for s, known := range map[string]bool{
		"5c3f0a52-3c8d-4c57-9a4e-0f2b7d7f3a11\n": true, "5C3F0A52-3C8D-4C57-9A4E-0F2B7D7F3A11": true,
		"": false, "5c3f0a52": false, "5c3f0a52-3c8d-4c57-9a4e-0f2b7d7f3a1x": false, "5c3f0a52-3c8d-4c57-9a4e-0f2b7d7f3a1100": false,
	} {
		if id := parseBootID(s); (id != unknown) != known {
			t.Errorf("%q is the boot %x", s, id)
		}
	}
	if id := BootID(); id == unknown || id != BootID() {
		t.Errorf("the system's boot is %x, then %x", id, BootID())
	}
}

// ownBoot is an FS with a boot of its own.
type ownBoot struct{ FS }

func (ownBoot) BootID() [16]byte { return [16]byte{1} }

func TestAnFSMayHaveABootOfItsOwn(t *testing.T) {
	if id := BootIDOf(OS()); id != BootID() {
		t.Errorf("the boot of the system's files is %x, and the system's is %x", id, BootID())
	}
	if id := BootIDOf(ownBoot{OS()}); id != [16]byte{1} {
		t.Errorf("%x", id)
	}
}
