package membership

import (
	"fmt"
	"slices"
	"strings"
)

// Vote is what a voter knows of the vote of another broker.
type Vote struct {
	Node    int32  `json:"node"` // -1: not known
	Address string `json:"address,omitempty"`
	// Lost: the broker runs with another metadata directory, as another member. Whatever has
	// happened to the directory that has the vote, it is not used.
	Lost      bool `json:"lost,omitempty"`
	Connected bool `json:"-"` // to the member that has the vote
}

// String names the broker, like view.Quorum.
func (v *Vote) String() string {
	switch {
	case v.Node < 0:
		return "a member without a broker"
	case v.Address == "":
		return fmt.Sprintf("broker %d", v.Node)
	}
	return fmt.Sprintf("broker %d (%s)", v.Node, v.Address)
}

// Gone reports whether so many votes are lost that the others are no majority: waiting does not
// help. self is 1 if the node that knows the votes of the others has one itself.
func Gone(others []Vote, self int) bool {
	lost := 0
	for i := range others {
		if others[i].Lost {
			lost++
		}
	}
	return len(others)+self-lost < (len(others)+self)/2+1
}

// RecoverCommand is the command that makes a voter the only one, if the votes of the others are
// lost.
func RecoverCommand(others []Vote) string {
	var nodes []int32
	for i := range others {
		nodes = append(nodes, others[i].Node)
	}
	slices.Sort(nodes)
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Compact(nodes)), " ", ","), "[]")
	return "`chronikd recover --config FILE --lost " + list + "`"
}

// gone is what a node waits for in vain whose seeds report that most votes are lost; empty if none
// does. Of several, the first one stands for all.
func gone(answers []Answer) string {
	for _, a := range answers {
		if a.State == nil || a.State.Leader != (Member{}) || len(a.State.Votes) == 0 || !Gone(a.State.Votes, 1) {
			continue
		}
		var lost []string
		for i := range a.State.Votes {
			if v := &a.State.Votes[i]; v.Lost {
				lost = append(lost, v.String())
			}
		}
		who := Vote{Node: a.State.Self.Node, Address: a.State.Self.Address}
		return fmt.Sprintf(", in vain: %s, of %d voters, run with other metadata directories than those that have the votes, "+
			"so a majority of the voters is gone, and waiting does not help; if the former directories still exist, stop these brokers and put "+
			"them back; if they are lost for good, stop %s, which has the metadata, run %s there with its configuration, start it, and this "+
			"broker joins (docs/cluster.md, Recover lost metadata)",
			strings.Join(lost, ", "), len(a.State.Votes)+1, who.String(), RecoverCommand(a.State.Votes))
	}
	return ""
}
