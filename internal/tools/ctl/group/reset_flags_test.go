package group

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

func offset(n int64) *int64 { return &n }

func TestAMoveStaysWithinWhatThePartitionHas(t *testing.T) {
	x := app.OffsetRange{Start: 10, End: 20}
	for name, c := range map[string]struct {
		w    resetFlags
		from *int64
		to   int64
		want int64
		note bool
	}{
		"inside":             {resetFlags{kind: "to-offset"}, nil, 15, 15, false},
		"the end":            {resetFlags{kind: "to-offset"}, nil, 20, 20, false},
		"below":              {resetFlags{kind: "to-offset"}, nil, 9, 10, true},
		"above":              {resetFlags{kind: "to-offset"}, nil, 21, 20, true},
		"shifted up":         {resetFlags{kind: "shift-by", shift: 3}, offset(12), 0, 15, false},
		"shifted down":       {resetFlags{kind: "shift-by", shift: -3}, offset(12), 0, 10, true},
		"shifted far":        {resetFlags{kind: "shift-by", shift: math.MaxInt64}, offset(12), 0, 20, false},
		"shifted far down":   {resetFlags{kind: "shift-by", shift: math.MinInt64}, offset(12), 0, 10, true},
		"committed is below": {resetFlags{kind: "shift-by", shift: 1}, offset(2), 0, 10, true},
	} {
		m, err := c.w.move("a", 0, x, c.from, c.to)
		if err != nil || m.To != c.want || (m.Note != "") != c.note {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	w := resetFlags{kind: "shift-by", shift: 1}
	if _, err := w.move("a", 0, x, nil, 0); err == nil {
		t.Error("an offset that is not there was shifted")
	}
}

func TestLag(t *testing.T) {
	for name, c := range map[string]struct {
		committed, start, end *int64
		want                  int64 // -1 for unknown
	}{
		"behind":                    {offset(5), offset(0), offset(9), 4},
		"at the end":                {offset(9), offset(0), offset(9), 0},
		"ahead of a truncated log":  {offset(12), offset(0), offset(9), 0},
		"nothing committed":         {nil, offset(3), offset(9), 6},
		"committed before retained": {offset(1), offset(3), offset(9), 6},
		"topic deleted":             {offset(1), nil, nil, -1},
	} {
		p := partition{Committed: c.committed, Start: c.start, End: c.end}
		p.measure()
		if got := p.Lag; got == nil && c.want >= 0 || got != nil && *got != c.want {
			t.Errorf("%s: %v, want %d", name, known(got), c.want)
		} else if got == nil && p.Error == "" {
			t.Errorf("%s: no reason is given", name)
		}
	}
}

// If members have just joined, a broker treats a reset as a commit of an unknown member.
func TestAResetOfAGroupThatGotMembers(t *testing.T) {
	for _, code := range []error{kerr.UnknownMemberID, kerr.RebalanceInProgress} {
		message, err := joined(code)
		if text := app.Refused("reset group g", err, message).Error(); !errors.Is(err, kerr.NonEmptyGroup) ||
			!strings.Contains(text, "members have joined it meanwhile") ||
			!strings.Contains(text, "stop its members first") {
			t.Errorf("%v: %s", code, text)
		}
		// For a consumer it is no reason to stop the others.
		if text := app.Remedy(code); strings.Contains(text, "stop") {
			t.Errorf("%v: %s", code, text)
		}
	}
	if message, err := joined(kerr.GroupAuthorizationFailed); !errors.Is(err, kerr.GroupAuthorizationFailed) || message != "" {
		t.Errorf("%v, %q", err, message)
	}
}
