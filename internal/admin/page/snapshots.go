package page

import (
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

// snapshots says how old the newest snapshot that can be restored is, what the cluster does about
// the next one, and why it cannot.
func snapshots(x *view.SnapshotList, now time.Time) g.Node {
	var parts g.Group
	add := func(nodes ...g.Node) { parts = append(parts, h.Div(nodes...), newline) }
	at := func(ms int64) string { return moment(time.UnixMilli(ms)) }
	last, good := len(x.Snapshots)-1, len(x.Snapshots)-1
	for good >= 0 && x.Snapshots[good].Damage != "" {
		good--
	}
	if good >= 0 {
		s := &x.Snapshots[good]
		add(g.Text(ago(now, time.UnixMilli(s.TimeMs))), small("number "+strconv.FormatInt(s.Number, 10)+" of "+at(s.TimeMs)+", "+
			bytesText(float64(s.Bytes))+"; "+text.Count(len(x.Snapshots), "snapshot")+" in all"))
		if s.Note != "" {
			add(small(s.Note))
		}
		if s.Offline > 0 {
			add(tag("warn", "incomplete"), space, why("it lacks "+text.Count(s.Offline, "partition")+" that no broker could read"))
		}
	} else {
		add(tag("warn", "none"))
	}
	if good < last {
		add(tag("bad", "damaged"), space, why("number "+strconv.FormatInt(x.Snapshots[last].Number, 10)+": "+x.Snapshots[last].Damage))
	}
	switch s := x.Service; {
	case s == nil:
		add(why(x.Error))
	case s.URL == "":
		add(why("no snapshots are taken: archive.url is not set"))
	default:
		if r := s.Running; r != nil {
			add(small("one is being taken since " + at(r.SinceMs) + ": " + bytesText(float64(r.UploadedBytes)) + " of about " +
				bytesText(float64(r.TotalBytes)) + " uploaded"))
		}
		if s.Failures > 0 {
			attempts := "attempt"
			if s.Failures > 1 {
				attempts = text.Count(s.Failures, attempts)
			}
			add(tag("warn", "fails"), space, why("the last "+attempts+" failed, at "+at(s.LastFailureMs)+": "+s.LastError))
		}
		if s.IntervalMs == 0 {
			add(small("there is no schedule"))
		}
	}
	return parts
}
