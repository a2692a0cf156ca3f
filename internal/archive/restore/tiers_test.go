package restore

import (
	"testing"

	"github.com/chronik-io/chronik/internal/archive/format"
)

// The local log of a restored partition has all records of the aborted transactions whose markers
// it has: it begins with the last part, or earlier.
func TestWhereARestoredLogBegins(t *testing.T) {
	part := func(base, aborted int64) format.Part {
		return format.Part{Base: base, End: base + 10, Run: format.Run{FirstAborted: aborted}}
	}
	for name, x := range map[string]struct {
		parts, pieces []format.Part
		want          int
	}{
		"nothing was aborted":            {[]format.Part{part(0, -1), part(10, -1), part(20, -1)}, nil, 2},
		"within the last part":           {[]format.Part{part(0, -1), part(10, -1), part(20, 20)}, nil, 2},
		"from the part before":           {[]format.Part{part(0, -1), part(10, -1), part(20, 19)}, nil, 1},
		"a piece has the marker":         {[]format.Part{part(0, -1), part(10, -1), part(20, -1)}, []format.Part{part(30, 12)}, 1},
		"one leads to another":           {[]format.Part{part(0, -1), part(10, 5), part(20, 15)}, nil, 0},
		"a marker that is not needed":    {[]format.Part{part(0, -1), part(10, 5), part(20, -1)}, nil, 2},
		"one part":                       {[]format.Part{part(0, -1)}, []format.Part{part(10, -1)}, 0},
		"nothing is in the store's list": {nil, []format.Part{part(0, -1)}, -1},
	} {
		if got := localFrom(x.parts, x.pieces); got != x.want {
			t.Errorf("%s: part %d, expected %d", name, got, x.want)
		}
	}
}
