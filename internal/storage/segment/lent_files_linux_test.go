package segment

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Loans that clients keep for a long time hold at most half of the files that may be open. Any
// number of loans of these files is possible, and their end makes others possible.
func TestLoansHoldHalfOfTheFiles(t *testing.T) {
	const most, segments = 6, 10
	files, pool := NewFiles(vfs.OS(), most), new(bufpool.Pool)
	defer func() { ok(t, files.Close()) }()
	var all []*Segment
	for i := range segments {
		dir := fmt.Sprintf("%s/%d", t.TempDir(), i)
		ok(t, os.Mkdir(dir, 0o700))
		s, err := Create(files, dir, 0, 0)
		ok(t, err)
		ok(t, s.Append([][]byte{batch(t, 0, 1, 1, strings.Repeat("v", 2*verifiedBlock))}, interval))
		ok(t, s.Sync())
		all = append(all, s)
	}
	take := func(s *Segment) *Loan {
		t.Helper()
		buf, b, loan, err := s.ReadOrLend(pool, 0, 1, 1<<20, true, MayLend)
		if buf != nil {
			buf.Release()
		}
		if err != nil || (len(b) == 0) == (loan == nil) {
			t.Fatalf("%d bytes, loan %t, %v", len(b), loan != nil, err)
		}
		return loan
	}
	var loans []*Loan
	for range 2 {
		for _, s := range all {
			if l := take(s); l != nil {
				loans = append(loans, l)
			}
		}
	}
	if len(loans) != 2*most/2 || files.Open() > most {
		t.Errorf("%d loans, %d files are open", len(loans), files.Open())
	}
	for _, l := range loans[1:] {
		l.Release()
	}
	again := take(all[segments-1])
	if again == nil {
		t.Fatal("no loan after others ended")
	}
	again.Release()
	loans[0].Release()
	if files.lent != 0 {
		t.Errorf("%d files count as lent", files.lent)
	}
}
