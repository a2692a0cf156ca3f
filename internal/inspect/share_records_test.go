package inspect

import (
	"encoding/json"
	"testing"

	group "github.com/chronik-io/chronik/internal/coordinator/group/format"
	state "github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
)

// Records of share groups are shown with the meaning of their bytes; others, and damaged ones, are
// not.
func TestRecordsOfShareGroupsAreDecoded(t *testing.T) {
	id := [16]byte{1}
	key := func(t group.Type, item string) []byte { return group.Key{Type: t, Group: "g", Item: item}.Encode() }
	at := state.Key{Group: "g", Topic: id, Partition: 3}
	batches := []state.Batch{{First: 5, Last: 7, State: 2, Count: 1}, {First: 8, Last: 8, State: 99, Count: 4}}
	snapshot := state.Snapshot{Epoch: 1, StateEpoch: 2, Leader: 3, Start: 4, Created: 10, Written: 11, Batches: batches, Complete: 3}
	update := state.Update{Epoch: 1, Leader: 3, Start: 5, Complete: 2}
	topics := []group.TopicPartitions{{ID: id, Partitions: []int32{0, 2}}}
	for _, c := range []struct {
		topic      string
		key, value []byte
		want       string
	}{
		{offsetsTopic, key(group.TypeShare, ""), group.Share{Epoch: 7, Hash: 9}.Encode(),
			`{"type":"share group","group":"g","value":{"epoch":7,"hash":"9"}}`},
		{offsetsTopic, key(group.TypeShareMember, "m"), group.ShareMember{ClientID: "c", ClientHost: "/h", Topics: []string{"t"}}.Encode(),
			`{"type":"share member","group":"g","memberId":"m","value":{"clientId":"c","host":"/h","rack":null,"topics":["t"]}}`},
		{offsetsTopic, key(group.TypeShareEpoch, ""), group.TargetEpoch{Epoch: 7, Time: 8}.Encode(),
			`{"type":"share target epoch","group":"g","value":{"epoch":7,"time":8}}`},
		{offsetsTopic, key(group.TypeShareTarget, "m"), group.Target(topics).Encode(),
			`{"type":"share target","group":"g","memberId":"m","value":{"topics":{"AQAAAAAAAAAAAAAAAAAAAA":[0,2]}}}`},
		{offsetsTopic, key(group.TypeShareCurrent, "m"), group.ShareCurrent{Epoch: 7, Previous: 6, Assigned: topics}.Encode(),
			`{"type":"share assignment","group":"g","memberId":"m","value":{"epoch":7,"previous":6,"topics":{"AQAAAAAAAAAAAAAAAAAAAA":[0,2]}}}`},
		{offsetsTopic, key(group.TypeShareStates, ""), group.ShareStates{Initialized: []group.ShareTopic{{ID: id, Name: "t",
			Partitions: []int32{1}}}}.Encode(),
			`{"type":"share states","group":"g","value":{"deleting":{},"initialized":{"t":[1]},"initializing":{}}}`},
		{offsetsTopic, key(group.TypeShareStates, ""), nil, `{"type":"share states","group":"g","value":null}`},
		{sharesTopic, at.Encode(state.TypeSnapshot), snapshot.Encode(),
			`{"type":"share state","group":"g","topicId":"AQAAAAAAAAAAAAAAAAAAAA","partition":3,"value":{"batches":[` +
				`{"deliveries":1,"first":5,"last":7,"state":"acknowledged"},{"deliveries":4,"first":8,"last":8,"state":"99"}],` +
				`"created":10,"finished":3,"leaderEpoch":3,"snapshotEpoch":1,"start":4,"stateEpoch":2,"written":11}}`},
		{sharesTopic, at.Encode(state.TypeUpdate), update.Encode(),
			`{"type":"share state update","group":"g","topicId":"AQAAAAAAAAAAAAAAAAAAAA","partition":3,"value":{"batches":[],` +
				`"finished":2,"leaderEpoch":3,"snapshotEpoch":1,"start":5}}`},
		{sharesTopic, at.Encode(state.TypeUpdate), []byte{0, 0, 1}, "null"},
		{sharesTopic, []byte{9}, nil, "null"},
		{offsetsTopic, key(group.TypeShare, ""), []byte{1}, "null"},
		{offsetsTopic, key(group.TypeGroup, ""), nil, "null"},
		{"orders", key(group.TypeShare, ""), nil, "null"},
	} {
		if got, err := json.Marshal(decoded(c.topic, c.key, c.value)); err != nil || string(got) != c.want {
			t.Errorf("%s\nwant %s, %v", got, c.want, err)
		}
	}
}
