package membership

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/sorts"
)

// Member identifies one metadata directory of a broker in the Raft group.
type Member struct {
	Node    int32  `json:"node"`    // node.id
	ID      uint64 `json:"member"`  // random, made with the metadata directory
	Address string `json:"address"` // HOST:PORT for other brokers
}

// State is a node's answer to the question which cluster it belongs to, as JSON. Every node answers
// it, with and without a cluster.
type State struct {
	Name string `json:"name"` // cluster.name
	Self Member `json:"self"`
	// Cluster and Generation identify the cluster; Cluster is empty for a node without one.
	Cluster    string      `json:"cluster,omitempty"`
	Generation metadata.ID `json:"generation,omitzero"`
	// Logs is the cluster whose records are in the node's log directories, empty if there is none.
	// Without a Cluster, it means that the metadata is lost.
	Logs string `json:"logs,omitempty"`
	// Seeds is SeedsHash of the node's cluster.seeds.
	Seeds string `json:"seeds"`
	// Seen is FormationID of the members that answered the node, empty unless all of its seeds did.
	// A node without a cluster forms one only if every seed has seen the same members.
	Seen string `json:"seen,omitempty"`
	// Leader is the metadata leader that the node knows; the zero value means none.
	Leader Member `json:"leader,omitzero"`
	// Votes are those of the other voters, if this node has a vote and knows no leader.
	Votes []Vote `json:"votes,omitempty"`
}

// Answer is what one address of cluster.seeds answered.
type Answer struct {
	Seed  string // as the list has it
	State *State // nil: no answer
	// Rejected is why the seed and this node do not talk to each other, with a remedy; empty if
	// there is another reason, or no reason is known.
	Rejected string
	// Unconnected is why no connection to the seed can be made; empty if it is not known.
	Unconnected string
}

// Step is what a node without a cluster does next.
type Step int

// Steps of a node without a cluster.
const (
	// Wait: ask again later. Decision.Why names the missing part.
	Wait Step = iota
	// Form: write the first metadata with Decision.Members as voters. Another member may have
	// written them already.
	Form
	// Join: ask the cluster Decision.Cluster to add this node.
	Join
	// Begin: the cluster begins with this node, which has its metadata.
	Begin
	// Refuse: end the start with Decision.Why.
	Refuse
)

// Decision is the result of Decide.
type Decision struct {
	Step Step
	// Why is a sentence part for the health report or the error, with a remedy if Step is Refuse.
	Why string
	// Members are the voters of a new cluster, sorted by id. Seen is their FormationID; the node's
	// own State must contain it from now on, also while Step is Wait.
	Members []Member
	Seen    string
	// Cluster and Generation are those of the cluster to form or to join.
	Cluster    string
	Generation metadata.ID
	// Contacts are members of the cluster to join: the leader first, if one is known.
	Contacts []Member
	// Gone is why it is in vain to wait for the metadata leader of the cluster; empty if it
	// may help.
	Gone string
	// Complete reports that all seeds have answered, if Step is Begin.
	Complete bool
}

// Decide decides what a node without a cluster does after it has asked all its seeds. self is the
// node's own State. It is pure: the same answers lead to the same decision on every node.
//
// A cluster is formed only if every seed answered, none has a cluster, and all of them have seen
// the same members. So a seed that lost its directory between two answers delays the others until
// they have seen its new member, and a seed that is down may still bring an existing cluster.
//
// A node that alone has the metadata of a cluster, as a broker that had no seeds, waits for no
// other seed: it is the one that has the records. It must find itself among the seeds, because the
// others look for it there.
func Decide(self State, answers []Answer) Decision {
	if why := mismatch(self, answers); why != "" {
		return Decision{Step: Refuse, Why: why}
	}
	if self.Cluster != "" {
		return begin(self, answers)
	}
	if d, ok := existing(self, answers); ok {
		return d
	}
	if why := unanswered(answers); why != "" {
		return Decision{Step: Wait, Why: why + "; a cluster is formed when all seeds answer"}
	}
	if lost := slices.IndexFunc(answers, func(a Answer) bool { return a.State.Logs != "" }); lost >= 0 {
		return Decision{Step: Refuse, Why: fmt.Sprintf("%s has log directories of the cluster %s, and no seed has the metadata of that cluster; "+
			"start the brokers with their metadata directories, or restore the metadata from a backup",
			answers[lost].Seed, answers[lost].State.Logs)}
	}
	members, isSeed := founders(self, answers)
	if !isSeed {
		return Decision{Step: Wait, Why: "the seeds have not formed a cluster yet, and this node is not one of them"}
	}
	d := Decision{Step: Form, Members: members, Seen: FormationID(members)}
	for _, a := range answers {
		if a.State.Self.ID != self.Self.ID && a.State.Seen != d.Seen {
			d.Step, d.Why = Wait, a.Seed+" has not had an answer from all seeds yet"
			return d
		}
	}
	if self.Seen != d.Seen { // the others must be able to see it first
		d.Step, d.Why = Wait, "the other seeds have not confirmed the list of members yet"
		return d
	}
	d.Cluster, d.Generation = identity(d.Members)
	return d
}

// begin decides what a node does that alone has the metadata of its cluster, while no seed belongs
// to another one: topics, groups and offsets of two clusters can't be put together.
func begin(self State, answers []Answer) Decision {
	here, silent := false, 0
	for _, a := range answers {
		switch s := a.State; {
		case s == nil:
			silent++
		case s.Self.ID == self.Self.ID:
			here = true
		}
	}
	const missing = "no entry of cluster.seeds leads to this broker, and the others would not find its topics; " +
		"add the address that it advertises to cluster.seeds, on all brokers"
	switch {
	case here:
		return Decision{Step: Begin, Why: "seeds that do not answer may belong to a cluster", Complete: silent == 0}
	case silent > 0:
		return Decision{Step: Wait, Why: missing}
	}
	return Decision{Step: Refuse, Why: missing}
}

// founders returns the members that form a cluster if nothing changes, sorted by id, and whether
// this node is one of them. It returns nil unless all seeds answered.
func founders(self State, answers []Answer) (members []Member, isSeed bool) {
	for _, a := range answers {
		if a.State == nil {
			return nil, false
		}
		members = append(members, a.State.Self)
		isSeed = isSeed || a.State.Self.ID == self.Self.ID
	}
	sorts.Sort(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return members, isSeed
}

// mismatch returns why this node and the seeds cannot belong to one cluster, "" if they can.
func mismatch(self State, answers []Answer) string {
	byNode, byMember := map[int32]string{}, map[uint64]string{}
	var cluster, from string
	for _, a := range answers {
		s := a.State
		if s == nil && a.Rejected != "" {
			return a.Seed + ": " + a.Rejected
		}
		if s == nil {
			continue
		}
		switch {
		case s.Name != self.Name:
			return fmt.Sprintf("cluster.name is %q, and the broker at %s has %q; set the same name on all brokers of a cluster",
				self.Name, a.Seed, s.Name)
		case byMember[s.Self.ID] != "":
			return fmt.Sprintf("%s and %s are the same broker, or one has a copy of the other's data directory; "+
				"name each broker once in cluster.seeds, and start each with its own directory", byMember[s.Self.ID], a.Seed)
		case byNode[s.Self.Node] != "":
			return fmt.Sprintf("the brokers at %s and %s both have node.id=%d; give each broker another node.id",
				byNode[s.Self.Node], a.Seed, s.Self.Node)
		case s.Self.Node == self.Self.Node && s.Self.ID != self.Self.ID:
			return fmt.Sprintf("the broker at %s also has node.id=%d; give each broker another node.id", a.Seed, s.Self.Node)
		case s.Cluster == "" && s.Seeds != self.Seeds && s.Self.ID != self.Self.ID:
			return fmt.Sprintf("the broker at %s has other cluster.seeds; set the same list on all brokers that form a cluster", a.Seed)
		case s.Cluster != "" && cluster != "" && s.Cluster != cluster:
			return fmt.Sprintf("the brokers at %s and %s belong to different clusters, %s and %s; "+
				"two clusters can't be merged: remove one of them from cluster.seeds, or empty the data directory of one and copy its topics", from, a.Seed, cluster, s.Cluster)
		}
		byNode[s.Self.Node], byMember[s.Self.ID] = a.Seed, a.Seed
		if s.Cluster != "" {
			cluster, from = s.Cluster, a.Seed
		}
	}
	return ""
}

// existing returns the decision to join if a seed has a cluster. If it is the one that the present
// members form, the node writes the first metadata itself and need not wait for a leader.
func existing(self State, answers []Answer) (Decision, bool) {
	d := Decision{Step: Join}
	for _, a := range answers {
		if a.State == nil || a.State.Cluster == "" {
			continue
		}
		if self.Logs != "" && self.Logs != a.State.Cluster {
			return Decision{Step: Refuse, Why: fmt.Sprintf("the log directories of this broker belong to the cluster %s, and %s to the cluster %s; "+
				"use log directories of the same cluster, or empty ones", self.Logs, a.Seed, a.State.Cluster)}, true
		}
		d.Cluster, d.Generation = a.State.Cluster, a.State.Generation
		if l := a.State.Leader; l != (Member{}) && !slices.Contains(d.Contacts, l) {
			d.Contacts = slices.Insert(d.Contacts, 0, l)
		}
		if !slices.Contains(d.Contacts, a.State.Self) {
			d.Contacts = append(d.Contacts, a.State.Self)
		}
	}
	if len(d.Contacts) == 0 {
		return d, false
	}
	d.Gone = gone(answers)
	if members, isSeed := founders(self, answers); isSeed {
		if cluster, generation := identity(members); cluster == d.Cluster && generation == d.Generation {
			d.Step, d.Members, d.Seen = Form, members, FormationID(members)
		}
	}
	return d, true
}

// SeedsHash identifies a list of seeds, in any order.
func SeedsHash(seeds []string) string {
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(seeds)), "\n")))
	return hex.EncodeToString(sum[:8])
}

// FormationID identifies the members of a new cluster. They must be sorted by id.
func FormationID(members []Member) string {
	sum := formation(members)
	return hex.EncodeToString(sum[:])
}

// identity returns the cluster id and the generation that every member computes for itself. The
// first bit of the id is 0, so that its text does not begin with a dash, as for other ids.
func identity(members []Member) (cluster string, generation metadata.ID) {
	sum := formation(members)
	sum[0] &= 0x7f
	return metadata.FormatID([16]byte(sum[:16])), metadata.ID(sum[16:])
}

// formation is a hash of which no half is zero.
func formation(members []Member) [sha256.Size]byte {
	var b []byte
	for _, m := range members {
		b = binary.BigEndian.AppendUint64(b, m.ID)
	}
	sum := sha256.Sum256(b)
	sum[15] |= 1
	sum[31] |= 1
	return sum
}
