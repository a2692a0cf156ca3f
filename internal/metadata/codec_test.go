package metadata

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

var (
	idA = [16]byte{0xa, 15: 1}
	idB = [16]byte{0xb, 15: 2}
	idC = [16]byte{0xc, 15: 3}
)

func TestKeysRoundTrip(t *testing.T) {
	for _, s := range []string{
		ClusterKey, ProducerIDsKey, BrokerKey(0), BrokerKey(2147483647), NameKey("a.b_c-d"), TopicKey(idA),
		PartitionKey(idA, 0), PartitionKey(idA, 2147483647), TopicConfigKey(idB), BrokerConfigKey(7),
		BrokerConfigKey(DefaultBroker), DeletingKey(idC), GroupConfigKey("g"), GroupConfigKey("a/b %\x00\xffü"),
	} {
		k, err := ParseKey(s)
		if err != nil || k.String() != s {
			t.Errorf("%s: %+v, %v", s, k, err)
		}
	}
	if NameKey("a.b") != NameKey("a_b") {
		t.Error("two colliding names have two keys")
	}
	if !(PartitionKey(idA, 9) < PartitionKey(idA, 10)) {
		t.Error("keys of partitions do not sort like partitions")
	}
}

func TestUnknownKeysAreRefused(t *testing.T) {
	id := FormatID(idA)
	for _, s := range []string{
		"", "/", "/cluster/", "/brokers/", "/brokers/-1", "/brokers/01", "/brokers/2147483648", "/names/", "/names/a.b",
		"/topics/" + id + "/", "/topics/" + id[1:], "/partitions/" + id, "/partitions/" + id + "/1", "/partitions/" + id + "/00000000001",
		"/configs/brokers/all", "/configs/groups/", "/configs/groups/a/b", "/configs/groups/%", "/configs/groups/%41",
		"/configs/topics/default", "/acls/1", TopicKey(idA)[:len(TopicKey(idA))-1] + "/",
	} {
		if k, err := ParseKey(s); err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%q: %+v, %v", s, k, err)
		}
	}
}

func somePartition() Partition {
	return Partition{Leader: 2, LeaderEpoch: 3, PartitionEpoch: 4, Replicas: []int32{2, 1}, ISR: []int32{2}, Dirs: [][16]byte{idC, {}},
		Revision: 9}
}

func TestValuesRoundTrip(t *testing.T) {
	check := func(key string, value []byte, want any, decode func(KV) (any, error)) {
		t.Helper()
		if !strings.HasPrefix(string(value), `{"v":1,`) {
			t.Errorf("%s: %s does not begin with its version", key, value)
		}
		got, err := decode(KV{Key: key, Value: value, ModRevision: 9})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", key, got, err, want)
		}
	}
	cluster := Cluster{ID: "c", FeatureLevel: 1}
	check(ClusterKey, cluster.Encode(), cluster, func(kv KV) (any, error) { return DecodeCluster(kv) })
	ids := ProducerIDs{Next: 1 << 60}
	check(ProducerIDsKey, ids.Encode(), ids, func(kv KV) (any, error) { return DecodeProducerIDs(kv) })
	broker := Broker{ID: 7, Incarnation: idA, Rack: "r", Epoch: 9}
	check(BrokerKey(7), broker.Encode(), broker, func(kv KV) (any, error) { return DecodeBroker(kv) })
	name := Name{Topic: "a.b", ID: idA}
	check(NameKey("a.b"), name.Encode(), name, func(kv KV) (any, error) { return DecodeName(kv) })
	topic := TopicRecord{Name: "a.b", Internal: true, Partitions: 3}
	check(TopicKey(idA), topic.Encode(), topic, func(kv KV) (any, error) { return DecodeTopicRecord(kv) })
	part := somePartition()
	check(PartitionKey(idA, 0), part.Encode(), part, func(kv KV) (any, error) { return DecodePartition(kv) })
	deleting := Deleting{ID: idA, Name: "x", Partitions: 2}
	check(DeletingKey(idA), deleting.Encode(), deleting, func(kv KV) (any, error) { return DecodeDeleting(kv) })
	configs := map[string]string{"a": "", "b": "\x00ü"}
	check(TopicConfigKey(idA), EncodeConfigs(configs), configs, func(kv KV) (any, error) { return DecodeConfigs(kv) })
}

// decoders are all decoders, for tests of common properties.
func decoders() map[string]func(KV) error {
	return map[string]func(KV) error{
		ClusterKey:           func(kv KV) error { _, err := DecodeCluster(kv); return err },
		ProducerIDsKey:       func(kv KV) error { _, err := DecodeProducerIDs(kv); return err },
		BrokerKey(1):         func(kv KV) error { _, err := DecodeBroker(kv); return err },
		NameKey("a"):         func(kv KV) error { _, err := DecodeName(kv); return err },
		TopicKey(idA):        func(kv KV) error { _, err := DecodeTopicRecord(kv); return err },
		PartitionKey(idA, 0): func(kv KV) error { _, err := DecodePartition(kv); return err },
		TopicConfigKey(idA):  func(kv KV) error { _, err := DecodeConfigs(kv); return err },
		DeletingKey(idA):     func(kv KV) error { _, err := DecodeDeleting(kv); return err },
	}
}

func TestNewerValueVersionsAreRefused(t *testing.T) {
	for key, decode := range decoders() {
		err := decode(KV{Key: key, Value: []byte(`{"v":2,"new":[1]}`), ModRevision: 1})
		if !errors.Is(err, ErrNewerVersion) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
		for _, bad := range []string{"", "{", "[]", "{}", `{"v":0}`, `{"v":-1}`, `{"v":"1"}`, `{"v":1,"surplus":1}`, `{"v":1}x`} {
			err := decode(KV{Key: key, Value: []byte(bad), ModRevision: 1})
			if err == nil || errors.Is(err, ErrNewerVersion) || !strings.Contains(err.Error(), key) {
				if bad == `{"v":1}` {
					continue
				}
				t.Errorf("%s = %s: %v", key, bad, err)
			}
		}
	}
	newer := Cluster{ID: "c", FeatureLevel: MaxFeatureLevel + 1}
	if _, err := DecodeCluster(KV{Key: ClusterKey, Value: newer.Encode(), ModRevision: 1}); !errors.Is(err, ErrNewerVersion) {
		t.Errorf("a newer feature level: %v", err)
	}
}

func TestInvalidPartitionsAreRefused(t *testing.T) {
	for what, change := range map[string]func(*Partition){
		"no replicas":             func(p *Partition) { p.Replicas, p.Dirs, p.ISR, p.Leader = nil, nil, nil, -1 },
		"too few directories":     func(p *Partition) { p.Dirs = p.Dirs[:1] },
		"a duplicate replica":     func(p *Partition) { p.Replicas = []int32{2, 2} },
		"a negative replica":      func(p *Partition) { p.Replicas = []int32{2, -1} },
		"isr outside replicas":    func(p *Partition) { p.ISR = []int32{5} },
		"isr twice":               func(p *Partition) { p.ISR = []int32{2, 2} },
		"leader is not a replica": func(p *Partition) { p.Leader = 5 },
		"negative leader":         func(p *Partition) { p.Leader = -2 },
		"negative leader epoch":   func(p *Partition) { p.LeaderEpoch = -1 },
		"negative epoch":          func(p *Partition) { p.PartitionEpoch = -1 },
	} {
		p := somePartition()
		change(&p)
		if _, err := DecodePartition(KV{Key: PartitionKey(idA, 0), Value: p.Encode(), ModRevision: 1}); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	p := somePartition()
	p.Leader, p.ISR = -1, []int32{}
	if _, err := DecodePartition(KV{Key: PartitionKey(idA, 0), Value: p.Encode(), ModRevision: 1}); err != nil {
		t.Errorf("a partition without a leader: %v", err)
	}
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{ClusterKey, BrokerKey(1), PartitionKey(idA, 3), BrokerConfigKey(DefaultBroker), "/topics/x",
		"/partitions//"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if k, err := ParseKey(s); err == nil && k.String() != s {
			t.Errorf("%q parses as %+v, which is %q", s, k, k.String())
		}
	})
}

func FuzzValue(f *testing.F) {
	p := somePartition()
	f.Add(PartitionKey(idA, 0), p.Encode())
	f.Add(TopicKey(idA), TopicRecord{Name: "x", Partitions: 1}.Encode())
	f.Add(TopicConfigKey(idA), EncodeConfigs(map[string]string{"a": "b"}))
	f.Add(BrokerKey(1), []byte(`{"v":1,"v":2,"incarnation":null}`))
	all := decoders()
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		kv := KV{Key: key, Value: value, ModRevision: 1}
		for _, decode := range all {
			_ = decode(kv) // an error or a value, never a panic
		}
		if _, _, err := Empty().Apply(Batch{Revision: 1, Events: []Event{{Key: key, Value: value}}}); err != nil {
			return
		}
		if _, err := Load([]KV{kv}, 1); err != nil {
			t.Errorf("%s = %q applies and does not load: %v", key, value, err)
		}
	})
}
