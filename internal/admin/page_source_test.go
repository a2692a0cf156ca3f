package admin

import (
	"testing"

	"github.com/chronik-io/chronik/internal/admin/page"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// The page of a topic has the findings about its partitions, also those that others share.
func TestFindingsAboutATopic(t *testing.T) {
	d := page.TopicDetail{Topic: view.Topic{Name: "t"}, Partitions: []view.Log{
		{Topic: "t", Partition: 0, Dir: "/a"}, {Topic: "t", Partition: 1, Planned: "/b", Error: "no inode", Offline: true}}}
	about, others := aboutTopic(&d), []string{"x-0", "x-1"}
	other := health.OfLog("x-0") // one in the same directory
	other.About.Dir = "/b"
	for _, c := range []struct {
		finding health.Finding
		want    bool
	}{
		{health.OfLog("t-1"), true},
		{health.OfLog("t-x-1"), false},
		{other, false},
		{health.OfDir("/a"), false},
		{health.OfDir("/b"), true},
		{health.OfLogs("/b", others), true},
		{health.OfLogs("/a", others), false},
		{health.OfLogs("/a", []string{"x-0", "t-0"}), true},
		{health.OfLogs("", others), false},
		{health.OfBroker(1), false},
		{health.Finding{Subject: "partition t-1"}, false},
	} {
		if about(&c.finding) != c.want {
			t.Errorf("%s, %+v: %v", c.finding.Subject, c.finding.About, !c.want)
		}
	}
	d.Partitions[1].Planned = ""
	if x := health.OfLogs("", others); !aboutTopic(&d)(&x) {
		t.Error("several partitions without a directory, of which the topic has one")
	}
}
