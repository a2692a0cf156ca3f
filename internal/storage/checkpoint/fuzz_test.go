package checkpoint

import (
	"bytes"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/journal"
)

// Whatever the records are, they are refused or make a state that comes back when it is
// written.
func FuzzRecords(f *testing.F) {
	one := full(1)
	head := header(1)
	h, log := head.append(nil), one.append(nil, All)
	c := Change{Header: header(2), Logs: []Update{{Log: &one, Unchanged: Producers}}}
	f.Add(h, log, c.append(nil))
	c.Removed = []journal.StreamID{one.ID}
	f.Add(h, log, c.append(nil))
	f.Add(h[:10], []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, header, log, change []byte) {
		to := newLoader()
		if to.Load(header) != nil || to.Load(log) != nil || to.Apply(1, change) != nil {
			return
		}
		again := newLoader()
		must(t, again.Load(to.header.append(nil)))
		for _, l := range to.logs {
			record := l.append(nil, All)
			must(t, again.Load(record))
			if back := again.logs[l.ID].append(nil, All); !bytes.Equal(back, record) {
				t.Errorf("%x comes back as %x", record, back)
			}
		}
		if *again.header != *to.header {
			t.Errorf("%+v comes back as %+v", to.header, again.header)
		}
	})
}
