package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/view"
)

func TestAssignmentsAreShort(t *testing.T) {
	all := map[string][]int32{"orders": {3, 1, 0, 2, 7}, "b": {5}, "none": nil}
	if got := strings.Join(assignedText(all), "|"); got != "b 5|none |orders 0-3, 7" {
		t.Error(got)
	}
	var odd []int32
	for i := range int32(1000) {
		odd = append(odd, 2*i)
	}
	if got := rangesText(odd); !strings.HasSuffix(got, ", 98, …") {
		t.Error(got)
	}
	for i := range 100 {
		all[fmt.Sprint("topic-", i)] = []int32{0}
	}
	if got := assignedText(all); len(got) != maxAssigned+1 || got[maxAssigned] != "and 83 more topics" {
		t.Error(got)
	}
}

// A share group has positions, and what the leaders of the partitions know of them.
func TestThePageOfAShareGroup(t *testing.T) {
	src, history := loaded()
	src.group.Kind, src.group.Offsets = "share", []view.GroupOffset{
		{Topic: "payments", Committed: 4100, End: 5000, Lag: 623,
			Share: &view.SharePartition{Loaded: true, Acquired: 277, Redelivered: 31, Archived: 17}},
		{Topic: "payments", Partition: 1, Committed: -1, End: 90, Lag: -1, Share: &view.SharePartition{}},
		{Topic: "payments", Partition: 2, Committed: -1, End: -1, Lag: -1, Share: &view.SharePartition{Error: "KAFKA_STORAGE_ERROR"}},
	}
	h := handlerOf(t, src, history)
	code, body := get(t, h, "/group?id=billing")
	for _, text := range []string{"Positions", "4,100", "5,000", "623", `<td class="num">277</td>`, `<td class="num">17</td>`,
		"KAFKA_STORAGE_ERROR"} {
		if code != http.StatusOK || !strings.Contains(body, text) {
			t.Errorf("%d, the page has no %q", code, text)
		}
	}
	for _, text := range []string{"Committed offsets", "-1"} {
		if strings.Contains(body, ">"+text+"<") {
			t.Errorf("the page has %q", text)
		}
	}
	src.group.Offsets = nil
	if _, body := get(t, h, "/group?id=billing"); !strings.Contains(body, "The group has no positions.") {
		t.Error("a group without positions has a table")
	}
}
