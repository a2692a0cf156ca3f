package format

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func streamsGolden() []goldenValue {
	streams := func(p []byte) (any, error) { return DecodeStreams(p) }
	member := func(p []byte) (any, error) { return DecodeStreamsMember(p) }
	target := func(p []byte) (any, error) { return DecodeStreamsTarget(p) }
	current := func(p []byte) (any, error) { return DecodeStreamsCurrent(p) }
	topology := func(p []byte) (any, error) { return DecodeTopology(p) }

	g := Streams{Epoch: 9, Validated: -1}
	full := Streams{Epoch: 9, Hash: 0x1122334455667788, Validated: 3, Configs: []KeyValue{{"num.standby.replicas", "1"}}}
	nulls := StreamsMember{ClientID: "c", ClientHost: "/h", RebalanceTimeout: -1, Process: "p"}
	m := StreamsMember{Instance: str("i"), Rack: str("r"), ClientID: "c", ClientHost: "/h", RebalanceTimeout: 300, TopologyEpoch: 2,
		Process: "p", Endpoint: &Endpoint{Host: "host", Port: 65000}, Tags: []KeyValue{{"k", "v"}}}
	tg := StreamsTarget{Active: []Tasks{{Subtopology: "0", Partitions: []int32{0, 1, 300}}},
		Standby: []Tasks{{Subtopology: "1", Partitions: []int32{2}}}}
	cur := StreamsCurrent{Epoch: 9, Previous: 8, State: 2,
		Assigned: TaskLists{Active: []Tasks{{Subtopology: "0", Partitions: []int32{0, 1}, Epochs: []int32{7, 9}}},
			Standby: []Tasks{{Subtopology: "1", Partitions: []int32{3}}}},
		Revoking: TaskLists{Active: []Tasks{{Subtopology: "0", Partitions: []int32{2}, Epochs: []int32{7}}},
			Standby: []Tasks{{Subtopology: "1", Partitions: []int32{4}}}}}
	top := Topology{Epoch: 2, Subtopologies: []Subtopology{{ID: "0", SourceTopics: []string{"a", "b"}, SourceRegexes: []string{"x.*"},
		Changelogs:       []InternalTopic{{Name: "cl", Configs: []KeyValue{{"k", "v"}}}},
		RepartitionSinks: []string{"rs"}, RepartitionSources: []InternalTopic{{Name: "rp", Partitions: 4, ReplicationFactor: 3}},
		Copartitioned: []CopartitionGroup{{SourceTopics: []int16{0, 1}, SourceRegexes: []int16{0}, RepartitionSources: []int16{0}}}}}}
	return []goldenValue{
		{"streams", "000000000009000000000000000000", g, g.Encode, streams},
		{"streams with all fields",
			"000000000009112233445566778802000400000003011902156e756d2e7374616e6462792e7265706c69636173023100",
			full, full.Encode, streams},
		{"streams member of nulls", "000000000263032f68ffffffff000000000270ff0100", nulls, nulls.Encode, member},
		{"streams member", "0000026902720263032f680000012c0000000202700105686f7374fde80002026b02760000", m, m.Encode, member},
		{"streams target", "00000202300400000000000000010000012c000202310200000002000100", tg, tg.Encode, target},
		{"streams current",
			"00000000000900000008020202300300000000000000010100090300000007000000090202310200000003000102023002000000020" +
				"1000502000000070202310200000004000100",
			cur, cur.Encode, current},
		{"topology",
			"00000000000202023003026102620204782e2a0203636c00000000000002026b027600000203727302037270000000040003010002" +
				"0300000001020000020000000000",
			top, top.Encode, topology},
	}
}

func fuzzStreams(t *testing.T, p []byte) {
	if v, err := DecodeStreamsMember(p); err == nil {
		again, err := DecodeStreamsMember(v.Encode())
		if d := cmp.Diff(v, again); err != nil || d != "" {
			t.Errorf("%x: %v\n%s", p, err, d)
		}
	}
	if v, err := DecodeStreamsCurrent(p); err == nil {
		again, err := DecodeStreamsCurrent(v.Encode())
		if d := cmp.Diff(v, again); err != nil || d != "" {
			t.Errorf("%x: %v\n%s", p, err, d)
		}
	}
	if v, err := DecodeTopology(p); err == nil {
		again, err := DecodeTopology(v.Encode())
		if d := cmp.Diff(v, again, cmpopts.EquateEmpty()); err != nil || d != "" {
			t.Errorf("%x: %v\n%s", p, err, d)
		}
	}
}
