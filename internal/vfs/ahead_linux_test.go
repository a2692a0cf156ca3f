package vfs

import (
	"path/filepath"
	"testing"
)

// StartRead and StartWriteback are harmless for any range, even beyond the end, and on a closed
// file.
func TestStartReadAndStartWritebackAreHarmless(t *testing.T) {
	f, err := OS().Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 3*adviseStep/2), 0); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func(){
		func() { StartRead(f, 0, 10*adviseStep) },
		func() { StartRead(f, 1, 0) },
		func() { StartWriteback(f, 0, 10*adviseStep) },
		func() {
			if err := Writeback(f, 0, 10*adviseStep); err != nil {
				t.Error(err)
			}
		},
	} {
		do()
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	StartRead(f, 0, adviseStep)
	StartWriteback(f, 0, adviseStep)
	if Writeback(f, 0, adviseStep) == nil {
		t.Error("the write-back of a closed file succeeds")
	}
}
