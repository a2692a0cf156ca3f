package move

import (
	"strings"
	"testing"
	"time"
)

// A line comes when it has changed and the last one is old enough. A command that waits for long
// says where the reason may be found, again and again.
func TestProgressSaysWhenItStandsStill(t *testing.T) {
	start := time.Unix(0, 0)
	p := NewProgress(start)
	for _, x := range []struct {
		after      time.Duration
		line, want string
	}{
		{time.Second, "0 of 2", ""},
		{5 * time.Second, "0 of 2", "0 of 2"},
		{11 * time.Second, "0 of 2", ""},
		{12 * time.Second, "1 of 2", "1 of 2"},
		{13 * time.Second, "2 of 3", ""},
		{18 * time.Second, "2 of 3", "2 of 3"},
		{72 * time.Second, "2 of 3", ""},
		{73 * time.Second, "2 of 3", "2 of 3; that has not changed for a minute: chronikctl cluster health"},
		{80 * time.Second, "2 of 3", ""},
		{133 * time.Second, "2 of 3", "2 of 3; that has not changed for a minute: chronikctl cluster health"},
	} {
		if got := p.Line(start.Add(x.after), x.line); got != x.want && (x.want == "" || !strings.HasPrefix(got, x.want)) {
			t.Errorf("after %v: %q, want %q", x.after, got, x.want)
		}
	}
}
