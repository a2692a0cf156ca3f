package inspect

import (
	"strconv"

	group "github.com/chronik-io/chronik/internal/coordinator/group/format"
	state "github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// The topics whose records of share groups are decoded.
const (
	offsetsTopic = "__consumer_offsets"
	sharesTopic  = "__share_group_state"
)

// Decoded is a record of a share group in a topic of coordinators.
type Decoded struct {
	Type      string `json:"type"`
	Group     string `json:"group"`
	Member    string `json:"memberId,omitempty"`
	TopicID   string `json:"topicId,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	// Value has the fields of the value; nil: a tombstone.
	Value any `json:"value"`
}

// decoded returns what a record of a share group means, nil for any other one, and for one that
// cannot be decoded.
func decoded(topic string, key, value []byte) *Decoded {
	switch topic {
	case offsetsTopic:
		return decodedGroup(key, value)
	case sharesTopic:
		return decodedState(key, value)
	}
	return nil
}

// shareTypes are the names of the types of records of share groups.
var shareTypes = map[group.Type]string{group.TypeShareMember: "share member", group.TypeShare: "share group",
	group.TypeShareEpoch: "share target epoch", group.TypeShareTarget: "share target", group.TypeShareCurrent: "share assignment",
	group.TypeShareStates: "share states"}

func decodedGroup(key, value []byte) *Decoded {
	k, err := group.DecodeKey(key)
	if err != nil || !k.Type.Share() {
		return nil
	}
	d := &Decoded{Type: shareTypes[k.Type], Group: k.Group, Member: k.Item}
	if value == nil {
		return d
	}
	switch k.Type {
	case group.TypeShareMember:
		var m group.ShareMember
		m, err = group.DecodeShareMember(value)
		d.Value = map[string]any{"rack": m.Rack, "clientId": m.ClientID, "host": m.ClientHost, "topics": m.Topics}
	case group.TypeShare:
		var g group.Share
		g, err = group.DecodeShare(value)
		d.Value = map[string]any{"epoch": g.Epoch, "hash": strconv.FormatInt(g.Hash, 10)}
	case group.TypeShareEpoch:
		var t group.TargetEpoch
		t, err = group.DecodeTargetEpoch(value)
		d.Value = map[string]any{"epoch": t.Epoch, "time": t.Time}
	case group.TypeShareTarget:
		var t group.Target
		t, err = group.DecodeTarget(value)
		d.Value = map[string]any{"topics": assigned(t)}
	case group.TypeShareCurrent:
		var c group.ShareCurrent
		c, err = group.DecodeShareCurrent(value)
		d.Value = map[string]any{"epoch": c.Epoch, "previous": c.Previous, "topics": assigned(c.Assigned)}
	default:
		var s group.ShareStates
		s, err = group.DecodeShareStates(value)
		d.Value = map[string]any{"initializing": stated(s.Initializing), "initialized": stated(s.Initialized),
			"deleting": stated(s.Deleting)}
	}
	if err != nil {
		return nil
	}
	return d
}

// assigned has the partitions by topic id.
func assigned(list []group.TopicPartitions) map[string][]int32 {
	all := map[string][]int32{}
	for _, t := range list {
		all[metadata.FormatID(t.ID)] = t.Partitions
	}
	return all
}

// stated has the partitions by topic.
func stated(list []group.ShareTopic) map[string][]int32 {
	all := map[string][]int32{}
	for _, t := range list {
		all[t.Name] = t.Partitions
	}
	return all
}

func decodedState(key, value []byte) *Decoded {
	t, k, err := state.DecodeKey(key)
	if err != nil {
		return nil
	}
	d := &Decoded{Type: "share state", Group: k.Group, TopicID: metadata.FormatID(k.Topic), Partition: &k.Partition}
	if t == state.TypeUpdate {
		d.Type = "share state update"
	}
	switch {
	case value == nil:
	case t == state.TypeSnapshot:
		var s state.Snapshot
		s, err = state.DecodeSnapshot(value)
		d.Value = map[string]any{"snapshotEpoch": s.Epoch, "stateEpoch": s.StateEpoch, "leaderEpoch": s.Leader, "start": s.Start,
			"created": s.Created, "written": s.Written, "finished": s.Complete, "batches": batchesOf(s.Batches)}
	default:
		var u state.Update
		u, err = state.DecodeUpdate(value)
		d.Value = map[string]any{"snapshotEpoch": u.Epoch, "leaderEpoch": u.Leader, "start": u.Start, "finished": u.Complete,
			"batches": batchesOf(u.Batches)}
	}
	if err != nil {
		return nil
	}
	return d
}

func batchesOf(list []state.Batch) []map[string]any {
	all := make([]map[string]any, len(list))
	for i, b := range list {
		all[i] = map[string]any{"first": b.First, "last": b.Last, "state": stateName(b.State), "deliveries": b.Count}
	}
	return all
}

// stateName returns the name of a delivery state, or its number if it is unknown.
func stateName(n int8) string {
	if n < 0 || n > int8(window.Archived) {
		return strconv.Itoa(int(n))
	}
	return window.State(n).String()
}
