package admin

import (
	"testing"

	"github.com/chronik-io/chronik/internal/admin/page"
	"github.com/chronik-io/chronik/internal/view"
)

// The page of a topic has the findings about its partitions, also those that others share.
func TestFindingsAboutATopic(t *testing.T) {
	d := page.TopicDetail{Topic: view.Topic{Name: "t"}, Partitions: []view.Log{
		{Topic: "t", Partition: 0, Dir: "/a"}, {Topic: "t", Partition: 1, Planned: "/b", Error: "no inode", Offline: true}}}
	about := aboutTopic(&d)
	for subject, want := range map[string]bool{"topic t": true, "partition t-1": true, "partition t-x-1": false, "log directory /a": false,
		"partitions in /b": true, "partitions in /a": false, "partitions of this broker": false, "partitions": false} {
		if about(subject) != want {
			t.Errorf("%s: %v", subject, !want)
		}
	}
}
