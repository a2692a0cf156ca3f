package page

import (
	"fmt"
	"strings"
	"testing"
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
