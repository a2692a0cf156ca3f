package segment

import (
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
)

// The producer snapshot is removed with its segment, and a new segment finds none; removing the
// indexes keeps it.
func TestTheProducerSnapshotIsRemovedWithItsSegment(t *testing.T) {
	name := Name(7) + ProducersSuffix
	for what, c := range map[string]struct {
		do   func(s *Segment) error
		stay bool
	}{
		"remove":         {(*Segment).Remove, false},
		"retire":         {(*Segment).Retire, false},
		"create":         {func(s *Segment) error { _, err := Create(s.files, testDir, 7, 0); return err }, false},
		"renew":          {func(s *Segment) error { _, err := Renew(s.files, testDir, 7, 0); return err }, false},
		"remove indexes": {(*Segment).RemoveIndexes, true},
		"finish a swap":  {func(s *Segment) error { return FinishSwap(s.files, testDir, 7, false) }, true},
	} {
		fsys := memory(t)
		s := written(t, fsys, 7, history(t, 7, 40, 1))
		ok(t, s.Sync())
		for _, suffix := range suffixes[1:] {
			replace(t, fsys, s.stem()+suffix, []byte("left by another segment"))
		}
		ok(t, c.do(s))
		infos, err := fsys.List(testDir)
		ok(t, err)
		if slices.ContainsFunc(infos, func(in vfs.Info) bool { return in.Name == name }) != c.stay {
			t.Errorf("%s: the file was kept: %v", what, !c.stay)
		}
		for _, suffix := range indexSuffixes {
			if _, err := fsys.Stat(s.stem() + suffix); err == nil {
				t.Errorf("%s: the index was kept", what)
			}
		}
	}
}
