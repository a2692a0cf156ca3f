package segment

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
)

// The file of producers belongs to its segment: another one of that name begins without
// it, it goes with the segment, and stays where only the indexes go.
func TestProducersBelongToTheirSegment(t *testing.T) {
	fsys := vfs.Memory()
	files := NewFiles(fsys, 9)
	s, err := Create(files, "", 7, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		do   func() error
		goes bool
	}{
		"remove":         {s.Remove, true},
		"retire":         {s.Retire, true},
		"create":         {func() error { _, err := Create(files, "", 7, 0); return err }, true},
		"renew":          {func() error { _, err := Renew(files, "", 7, 0); return err }, true},
		"remove indexes": {s.RemoveIndexes, false},
		"finish swap":    {func() error { return FinishSwap(files, "", 7, false) }, false},
	} {
		f, err := fsys.Create(s.ProducersPath())
		if err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		} else if err == nil {
			_ = f.Close()
		}
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := fsys.Stat(s.ProducersPath()); errors.Is(err, fs.ErrNotExist) != c.goes {
			t.Errorf("%s: %v", name, err)
		}
	}
}
