package restore

import (
	"errors"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// A batch that its part, the batch before it or the snapshot contradicts is refused, and the error
// says why. The part has the offsets [10, 20), the snapshot epoch 5, and the batch before it ends
// at 12 in epoch 3.
func TestABatchFitsItsPart(t *testing.T) {
	a, part := &appender{p: &format.Partition{Epoch: 5}, epoch: 3, batchFrom: 13}, &format.Part{Base: 10, End: 20}
	for _, c := range []struct {
		base    int64
		records int
		epoch   int32
		want    string
	}{
		{13, 7, 3, ""},
		{15, 1, 5, ""},
		{2, 3, 3, "the part has the offsets [10, 20)"}, // wholly below it
		{8, 4, 3, "the part has the offsets [10, 20)"},
		{13, 8, 3, "the part has the offsets [10, 20)"},
		{20, 1, 3, "the part has the offsets [10, 20)"},
		{12, 2, 3, "the batch before it ends at 12"},
		{13, 1, 2, "the batch before it has epoch 3"},
		{13, 1, 6, "the snapshot was taken in epoch 5"},
		{13, 0, 3, "it ends before it begins"},
	} {
		builder := record.NewBuilder(record.BatchOptions{})
		for range max(c.records, 1) {
			builder.Append(0, nil, []byte("v"), nil)
		}
		b, err := builder.Build()
		must.OK(t, err)
		b.SetBaseOffset(c.base)
		b.SetLeaderEpoch(c.epoch)
		if c.records == 0 {
			copy(b[23:], []byte{255, 255, 255, 255}) // the last offset delta is -1
		}
		err = a.fits(b, part)
		if fits := err == nil; fits != (c.want == "") || !fits && (!errors.Is(err, format.ErrContradiction) ||
			!strings.HasSuffix(err.Error(), c.want)) {
			t.Errorf("%d records at %d of epoch %d: %v, want %s", c.records, c.base, c.epoch, err, c.want)
		}
	}
}
