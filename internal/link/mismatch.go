package link

import (
	"errors"
	"fmt"
	"strings"
)

// Reason is why two brokers do not connect.
type Reason uint8

// The reasons for a refusal.
const (
	// WrongCluster: the names or the ids of the clusters differ.
	WrongCluster Reason = 1 + iota
	// WrongGeneration: the metadata of one end were recovered; see raftstore.Recover.
	WrongGeneration
	// WrongNode: another node than the expected one answered, or one node id has two owners.
	WrongNode
	// Itself: the broker dialed itself.
	Itself
	// WrongSecret: the ends have different secrets, or only one of them has a secret.
	WrongSecret
	// WrongVersion: there is no version of frames, or no lane, that both ends know.
	WrongVersion
	// Superseded: the peer has a newer connection from this broker.
	Superseded
	// NotAdmitted: the peer's own rules refuse this broker.
	NotAdmitted
	// Overloaded: the peer has too many connections of brokers.
	Overloaded
	// Removed: one of the ends was removed from the cluster.
	Removed
	// Twin: the ends are two processes of one broker and one metadata directory.
	Twin
	lastReason = Twin
)

// Mismatch is the error of a handshake that one of the ends refused. Cause says what is wrong, with
// the values of both ends where it compares some that are no secrets. Remedy says what to do; it is
// empty only if a peer has sent none.
type Mismatch struct {
	Reason        Reason
	Cause, Remedy string
	// Other is the address of the other process of this broker that is connected, if that is why.
	Other  string
	ByPeer bool  // the other end refused: in Cause, "here" is the other end
	Err    error // the error in Cause, if there is one; it is not sent
}

// Lasts reports whether the refusal lasts until the cause is removed. The other ones end when
// another connection does.
func (m *Mismatch) Lasts() bool { return m.Reason != Superseded && m.Reason != Overloaded }

// Unwrap returns the error in Cause.
func (m *Mismatch) Unwrap() error { return m.Err }

// Error returns cause and remedy.
func (m *Mismatch) Error() string {
	text := m.Cause
	if m.ByPeer {
		text = "refused by the peer: " + text
	}
	if m.Remedy != "" {
		text += "; " + m.Remedy
	}
	return text
}

// encode and decodeMismatch are the payload of a NO frame: reason u8, cause, a zero byte, remedy,
// and a zero byte with Other, if there is one.
func (m *Mismatch) encode() []byte {
	const most = 1 << 10
	clean := func(s string) string { return strings.ReplaceAll(s[:min(len(s), most)], "\x00", " ") }
	p := append([]byte{byte(m.Reason)}, clean(m.Cause)...)
	p = append(append(p, 0), clean(m.Remedy)...)
	if m.Other != "" {
		p = append(append(p, 0), clean(m.Other[:min(len(m.Other), maxName)])...)
	}
	return p
}

func decodeMismatch(p []byte) *Mismatch {
	m := &Mismatch{Reason: NotAdmitted, ByPeer: true}
	if len(p) == 0 {
		return m
	}
	if r := Reason(p[0]); r >= WrongCluster && r <= lastReason {
		m.Reason = r
	}
	parts := strings.SplitN(strings.ToValidUTF8(string(p[1:]), "?"), "\x00", 3)
	m.Cause = parts[0]
	if len(parts) > 1 {
		m.Remedy = parts[1]
	}
	if len(parts) > 2 {
		m.Other = parts[2][:min(len(parts[2]), maxName)]
	}
	return m
}

// compare checks that two ends belong together. It is the same rule at both ends. What it says is
// for peers that have proved the secret, if there is one.
func compare(here, peer *Hello) *Mismatch {
	bothKnow := here.ClusterID != "" && peer.ClusterID != ""
	switch {
	case here.ClusterName != peer.ClusterName:
		return differ(WrongCluster, "cluster.name", quoted(here.ClusterName), quoted(peer.ClusterName),
			"check cluster.seeds, or set the same cluster.name at all nodes")
	case here.Process == peer.Process && here.Member == peer.Member && here.Node == peer.Node:
		return &Mismatch{Reason: Itself, Cause: fmt.Sprintf("node %d dialed itself", here.Node),
			Remedy: "check the addresses in cluster.seeds"}
	case here.Member == peer.Member && here.Node == peer.Node:
		return &Mismatch{Reason: Twin, Cause: fmt.Sprintf("two processes run with node.id %d, on copies of one data directory", here.Node),
			Remedy: "end the one that is not meant"}
	case here.Node == peer.Node:
		return &Mismatch{Reason: WrongNode, Cause: fmt.Sprintf("node.id %d is used by two nodes, members %016x and %016x",
			here.Node, here.Member, peer.Member), Remedy: "set another node.id at one of them"}
	case here.Member == peer.Member:
		return &Mismatch{Reason: WrongNode, Cause: fmt.Sprintf("nodes %d and %d have the same member id %016x",
			here.Node, peer.Node, here.Member),
			Remedy: "one metadata directory is a copy of the other; empty it, and the node joins as a new member"}
	case bothKnow && here.ClusterID != peer.ClusterID:
		return differ(WrongCluster, "the cluster id", here.ClusterID, peer.ClusterID,
			"one of the nodes belongs to another cluster of the same name; to move it, copy its topics, and start it with an empty data directory")
	case bothKnow && here.Generation != peer.Generation:
		return differ(WrongGeneration, "the generation of the metadata", fmt.Sprintf("%x", here.Generation),
			fmt.Sprintf("%x", peer.Generation), "the metadata was recovered on one end: stop the broker that was not recovered, "+
				"empty its metadata directory, metadata in data.dir, and start it")
	case here.Lane != peer.Lane || here.Lane < Meta || here.Lane > Client:
		return differ(WrongVersion, "the lane", here.Lane, peer.Lane, "run the same release at all nodes")
	case min(here.MaxVersion, peer.MaxVersion) < max(here.MinVersion, peer.MinVersion):
		return differ(WrongVersion, "the range of frame versions", versions(here), versions(peer),
			"the releases are too far apart; upgrade one step at a time")
	}
	return nil
}

// compareSecured checks that both ends have a secret, or none. Of all that compare checks, it is
// what a stranger may know.
func compareSecured(here, peer *Hello) *Mismatch {
	if here.Secured == peer.Secured {
		return nil
	}
	return differ(WrongSecret, "cluster.secret.file", set(here.Secured), set(peer.Secured), "set it at all nodes, or at none")
}

func differ(reason Reason, what string, a, b any, remedy string) *Mismatch {
	return &Mismatch{Reason: reason, Cause: fmt.Sprintf("%s is %v here and %v at the peer", what, a, b), Remedy: remedy}
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }

func versions(h *Hello) string { return fmt.Sprintf("%d to %d", h.MinVersion, h.MaxVersion) }

func set(yes bool) string {
	if yes {
		return "set"
	}
	return "not set"
}

// refusal returns err as a Mismatch, for a peer that must know the reason.
func refusal(err error) *Mismatch {
	if m := (*Mismatch)(nil); errors.As(err, &m) {
		return m
	}
	return &Mismatch{Reason: NotAdmitted, Cause: err.Error(),
		Remedy: "correct that at the node that refuses or at its peer, which dials again"}
}
