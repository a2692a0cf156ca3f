package cluster

import (
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
)

// A metadata directory shows which broker it belongs to, so a changed node.id is found in a cluster
// of several brokers too, whichever of them it is.
func TestAChangedNodeIDNamesTheFormerNumber(t *testing.T) {
	brokers := []metadata.Broker{{ID: 1, Member: 11}, {ID: 2, Member: 12}, {ID: 3, Member: 13}}
	for name, c := range map[string]struct {
		list   []metadata.Broker
		node   int32
		member uint64
		linked bool
		want   string // "" if the start continues
	}{
		"unchanged":                       {brokers, 2, 12, true, ""},
		"the first":                       {brokers, 7, 11, true, "node.id 1, not 7: set node.id=1, "},
		"the second":                      {brokers, 7, 12, true, "node.id 2, not 7: set node.id=2, "},
		"the last":                        {brokers, 7, 13, true, "node.id 3, not 7: set node.id=3, "},
		"to the number of another":        {brokers, 3, 12, true, "node.id 2, not 3: set node.id=2, "},
		"a new broker":                    {brokers, 4, 14, true, ""},
		"an emptied directory":            {brokers, 2, 15, true, ""},
		"no broker is registered":         {nil, 1, 11, true, ""},
		"without seeds":                   {brokers[:1], 1, 11, false, ""},
		"changed without seeds":           {brokers[:1], 2, 11, false, "node.id 1, not 2: set node.id=1, "},
		"changed without seeds or member": {[]metadata.Broker{{ID: 1}}, 2, 11, false, "node.id 1, not 2: set node.id=1, "},
		"the seeds were removed":          {brokers, 1, 11, false, "/d belongs to a broker of a cluster, in which broker 2 "},
	} {
		err := checkNode(c.list, c.node, c.member, c.linked, "/d")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
