package checkpoint

import (
	"bytes"
	"testing"
)

// Arbitrary records are either refused or decode to a state that survives encoding.
func FuzzRecords(f *testing.F) {
	one := full(1)
	head := header(1)
	h, log := head.append([]byte{kindHeader}), one.append([]byte{kindLog}, true)
	c := Change{Header: header(2), Logs: []Update{{Log: &one, SameProducers: true}}}
	f.Add(h, log, c.append(nil))
	c.Logs[0].SameProducers = false
	f.Add(h, log, c.append(nil))
	f.Add(h[:10], []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, header, log, change []byte) {
		to := newLoader()
		if to.Load(log) != nil || to.Load(header) != nil || to.Apply(1, change) != nil {
			return
		}
		again := newLoader()
		for _, l := range to.logs {
			record := l.append([]byte{kindLog}, true)
			must(t, again.Load(record))
			if back := again.logs[l.ID].append([]byte{kindLog}, true); !bytes.Equal(back, record) {
				t.Errorf("%x comes back as %x", record, back)
			}
		}
		must(t, again.Load(to.header.append([]byte{kindHeader})))
		if *again.header != *to.header {
			t.Errorf("%+v comes back as %+v", to.header, again.header)
		}
	})
}
