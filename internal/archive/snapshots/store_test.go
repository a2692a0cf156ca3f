package snapshots

import (
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A snapshot is not named if a broker has put its records where the controller does not find them.
func TestAllBrokersHaveTheSameStore(t *testing.T) {
	ours, err := dirstore.Open(vfs.OS(), t.TempDir())
	must.OK(t, err)
	theirs, err := dirstore.Open(vfs.OS(), t.TempDir())
	must.OK(t, err)
	log := func(nonce byte, size int64) format.Partition {
		run := format.Run{Kind: objects.Pack, Nonce: objects.Nonce{nonce}, End: 5, Size: size}
		return format.Partition{Parts: []format.Part{format.Whole(run, 1)}}
	}
	x := &taking{store: ours, prefix: format.Prefix([16]byte{1}), index: &format.Index{Partitions: []format.Partition{log(1, 9)}}}
	for nonce, at := range map[byte]objects.Store{2: ours, 3: theirs} {
		p := log(nonce, 9)
		must.OK(t, at.Put(t.Context(), x.prefix+p.Parts[0].Run.Name(p.ID), strings.NewReader("123456789")))
	}
	for name, c := range map[string]struct {
		list []format.Partition
		want string
	}{
		"nothing new":               {[]format.Partition{log(1, 9)}, ""},
		"in this store":             {[]format.Partition{log(1, 9), log(2, 9)}, ""},
		"in another one":            {[]format.Partition{log(1, 9), log(3, 9)}, "archive.url must be the same store"},
		"in this store and shorter": {[]format.Partition{log(2, 10)}, "archive.url must be the same store"},
	} {
		err := x.shared(t.Context(), 7, c.list)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
