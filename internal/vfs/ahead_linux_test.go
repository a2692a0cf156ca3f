package vfs

import (
	"path/filepath"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// StartRead and StartWriteback are harmless for any range, even beyond the end, and on a closed
// file. So is SetReadAhead.
func TestAdviceIsHarmless(t *testing.T) {
	f, err := OS().Create(filepath.Join(t.TempDir(), "f"))
	must.OK(t, err)
	if _, err := f.WriteAt(make([]byte, 3*adviseStep/2), 0); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func(){
		func() { StartRead(f, 0, 10*adviseStep) },
		func() { StartRead(f, 1, 0) },
		func() { StartWriteback(f, 0, 10*adviseStep) },
		func() { SetReadAhead(f, false) },
		func() { SetReadAhead(f, true) },
		func() {
			if err := Writeback(f, 0, 10*adviseStep); err != nil {
				t.Error(err)
			}
		},
	} {
		do()
		if n, err := f.ReadAt(make([]byte, 3*adviseStep/2), 0); err != nil || n != 3*adviseStep/2 {
			t.Errorf("read %d bytes: %v", n, err)
		}
	}
	must.OK(t, f.Close())
	StartRead(f, 0, adviseStep)
	StartWriteback(f, 0, adviseStep)
	if Writeback(f, 0, adviseStep) == nil {
		t.Error("the write-back of a closed file succeeds")
	}
}
