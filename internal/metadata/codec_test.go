package metadata

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/security/acl"
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
		SubscriptionKey("a/b %\x00\xffü"),
		LivenessKey(3), ACLPrefix + FormatID(idB), PlacementKey(3, idB), DeletingBrokerKey(idC, 3), GoneKey(0), GoneKey(1<<64 - 1),
		SnapshotKey(1), SnapshotKey(1<<63 - 1), MarkKey, CollectionKey, ObjectStoreKey,
		TierKey(TopicPartition{idA, 0}), TierKey(TopicPartition{idA, 2147483647}),
	} {
		k, err := ParseKey(s)
		if err != nil || k.String() != s {
			t.Errorf("%s: %+v, %v", s, k, err)
		}
	}
	if NameKey("a.b") != NameKey("a_b") {
		t.Error("two colliding names have two keys")
	}
	if !(SnapshotKey(9) < SnapshotKey(10)) {
		t.Error("keys of snapshots do not sort like numbers")
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
		"/liveness/", "/liveness/01", "/placements/1", "/placements/1/", "/placements/x/" + id, "/placements/01/" + id,
		"/deleting/" + id + "/", "/deleting/" + id + "/01", "/deleting//1", "/gone/1", "/gone/000000000000000A",
		"/configs/topics/default", "/tiers/" + id, "/tiers/" + id + "/1", "/acls/1", "/acls/" + id + "/", "/unknown/1", "/snapshots/1",
		"/snapshots/00000000000000000000", "/snapshots/-0000000000000000001", MarkKey + "/", TopicKey(idA)[:len(TopicKey(idA))-1] + "/",
	} {
		if k, err := ParseKey(s); err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%q: %+v, %v", s, k, err)
		}
	}
}

func somePartition() Partition {
	return Partition{Leader: 2, LeaderEpoch: 3, PartitionEpoch: 4, Replicas: []int32{2, 1, 7}, ISR: []int32{2}, ELR: []int32{1},
		Adding: []int32{7}, Removing: []int32{1}, Unclean: 2, Confirmed: 1, Revision: 9}
}

func someSnapshot() *Snapshot {
	return &Snapshot{Number: 1 << 40, Nonce: idB, Changes: 1, Time: 2, Ended: 3, Partitions: 5, Offline: 4, Bytes: 7, Uploaded: 6,
		Verified: 8, Note: "n", Damage: "d", Revision: 9}
}

func someTier() *Tier {
	return &Tier{Manifest: idB, Start: 2, End: 9, Bytes: 4, Epochs: []EpochStart{{1, 0}, {3, 5}}, Generation: idC, Epoch: 3, Revision: 9}
}

func someACL(name string) *acl.Binding {
	return &acl.Binding{Type: 2, Name: name, Pattern: 3, Principal: "User:bob", Host: "*", Operation: 4, Permission: 3}
}

func someBroker() Broker {
	return Broker{ID: 7, Member: 1<<63 + 1, Former: []uint64{3, 2}, Incarnation: idA, Rack: "r", Epoch: 9,
		Features:  Features{Min: 1, Max: 2},
		Dirs:      []BrokerDir{{ID: idB, Format: 3, CheckpointSequence: 1<<64 - 1, Finding: idA}, {ID: idC, Offline: true}},
		Listeners: []Endpoint{{Listener: "a", Host: "h", Port: 9092}, {Listener: "b"}}}
}

func TestValuesRoundTrip(t *testing.T) {
	check := func(key string, value []byte, want any, decode func(KV) (any, error)) {
		t.Helper()
		if !strings.HasPrefix(string(value), `{"v":1,`) && value[0] != 1 {
			t.Errorf("%s: %q does not begin with its version", key, value)
		}
		got, err := decode(KV{Key: key, Value: value, ModRevision: 9})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", key, got, err, want)
		}
	}
	cluster := Cluster{ID: "c", Generation: idB, FeatureLevel: 1, TransactionVersion: 2}
	check(ClusterKey, cluster.Encode(), cluster, func(kv KV) (any, error) { return DecodeCluster(kv) })
	ids := ProducerIDs{Next: 1 << 60}
	check(ProducerIDsKey, ids.Encode(), ids, func(kv KV) (any, error) { return DecodeProducerIDs(kv) })
	plain := Broker{ID: 7, Incarnation: idA, Epoch: 9}
	check(BrokerKey(7), plain.Encode(), plain, func(kv KV) (any, error) { return DecodeBroker(kv) })
	broker := someBroker()
	check(BrokerKey(7), broker.Encode(), broker, func(kv KV) (any, error) { return DecodeBroker(kv) })
	for _, l := range []Liveness{Fenced, Starting, Active, Draining, Drained} {
		state := BrokerState{Liveness: l, Incarnation: idA, Unable: []UnableDir{{idB, DirLow}, {idC, DirFailed}},
			Damaged: []TopicPartition{{idC, 3}}}
		check(LivenessKey(7), state.Encode(), state, func(kv KV) (any, error) { return DecodeState(kv) })
	}
	check(GoneKey(3), Gone{Broker: 7}.Encode(), Gone{Broker: 7}, func(kv KV) (any, error) { return DecodeGone(kv) })
	name := Name{Topic: "a.b", ID: idA}
	check(NameKey("a.b"), name.Encode(), name, func(kv KV) (any, error) { return DecodeName(kv) })
	topic := TopicRecord{Name: "a.b", Internal: true, Partitions: 3}
	check(TopicKey(idA), topic.Encode(), topic, func(kv KV) (any, error) { return DecodeTopicRecord(kv) })
	part := somePartition()
	check(PartitionKey(idA, 0), part.Encode(), part, func(kv KV) (any, error) { return DecodePartition(kv) })
	for _, last := range []LastReplica{{Broker: 1, Dir: idA}, {Broker: 1, Dir: idA, Lossy: true}} {
		part.Leader, part.ISR, part.ELR, part.Last = -1, nil, nil, last
		check(PartitionKey(idA, 0), part.Encode(), part, func(kv KV) (any, error) { return DecodePartition(kv) })
	}
	rule := someACL("a/\x00ü")
	check(ACLKey(rule), EncodeACL(rule), *rule, func(kv KV) (any, error) { return DecodeACL(kv) })
	snapshot := someSnapshot()
	check(SnapshotKey(snapshot.Number), snapshot.Encode(), *snapshot, func(kv KV) (any, error) { return DecodeSnapshot(kv) })
	check(MarkKey, Mark{Time: 5}.Encode(), Mark{Time: 5}, func(kv KV) (any, error) { return DecodeMark(kv) })
	collection := Collection{Time: 6, Generation: idB}
	check(CollectionKey, collection.Encode(), collection, func(kv KV) (any, error) { return DecodeCollection(kv) })
	store := ObjectStore{Mark: idA}
	check(ObjectStoreKey, store.Encode(), store, func(kv KV) (any, error) { return DecodeObjectStore(kv) })
	tier := someTier()
	check(TierKey(TopicPartition{idA, 1}), tier.Encode(), *tier, func(kv KV) (any, error) { return DecodeTier(kv) })
	deleting := Deleting{ID: idA, Name: "x", Partitions: 2, Revision: 9}
	check(DeletingKey(idA), deleting.Encode(), deleting, func(kv KV) (any, error) { return DecodeDeleting(kv) })
	configs := map[string]string{"a": "", "b": "\x00ü"}
	check(TopicConfigKey(idA), EncodeConfigs(configs), configs, func(kv KV) (any, error) { return DecodeConfigs(kv) })
}

// decoders are all decoders, for tests of common properties.
func decoders() map[string]func(KV) error {
	return map[string]func(KV) error{
		ClusterKey:                func(kv KV) error { _, err := DecodeCluster(kv); return err },
		ProducerIDsKey:            func(kv KV) error { _, err := DecodeProducerIDs(kv); return err },
		BrokerKey(1):              func(kv KV) error { _, err := DecodeBroker(kv); return err },
		NameKey("a"):              func(kv KV) error { _, err := DecodeName(kv); return err },
		TopicKey(idA):             func(kv KV) error { _, err := DecodeTopicRecord(kv); return err },
		PartitionKey(idA, 0):      func(kv KV) error { _, err := DecodePartition(kv); return err },
		TopicConfigKey(idA):       func(kv KV) error { _, err := DecodeConfigs(kv); return err },
		DeletingKey(idA):          func(kv KV) error { _, err := DecodeDeleting(kv); return err },
		LivenessKey(1):            func(kv KV) error { _, err := DecodeState(kv); return err },
		GoneKey(1):                func(kv KV) error { _, err := DecodeGone(kv); return err },
		ACLPrefix + FormatID(idB): func(kv KV) error { _, err := DecodeACL(kv); return err },
		PlacementKey(1, idA):      func(kv KV) error { _, err := DecodePlacement(kv); return err },
		SnapshotKey(1):            func(kv KV) error { _, err := DecodeSnapshot(kv); return err },
		MarkKey:                   func(kv KV) error { _, err := DecodeMark(kv); return err },
		CollectionKey:             func(kv KV) error { _, err := DecodeCollection(kv); return err },
		ObjectStoreKey:            func(kv KV) error { _, err := DecodeObjectStore(kv); return err },

		TierKey(TopicPartition{idA, 1}): func(kv KV) error { _, err := DecodeTier(kv); return err },
	}
}

// A Tier whose numbers contradict each other is refused.
func TestWrongTiersAreRefused(t *testing.T) {
	for want, wrong := range map[string][]func(*Tier){
		"its range or its size": {
			func(x *Tier) { x.Epoch = -1 }, func(x *Tier) { x.Start = -1 }, func(x *Tier) { x.End = 1 }, func(x *Tier) { x.Bytes = -1 },
			func(x *Tier) { x.Manifest = ID{} }, func(x *Tier) { x.Start = x.End },
			func(x *Tier) { x.Epochs = make([]EpochStart, MaxTierEpochs+1) },
		},
		"its leader epochs": {
			func(x *Tier) { x.Epochs[1].Epoch = 1 }, func(x *Tier) { x.Epochs[1].Start = -1 }, func(x *Tier) { x.Epochs[1].Start = x.End },
		},
	} {
		for i, change := range wrong {
			x := someTier()
			change(x)
			_, err := DecodeTier(KV{Key: TierKey(TopicPartition{idA, 1}), Value: x.Encode(), ModRevision: 9})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %d: %v", want, i, err)
			}
		}
	}
}

func TestNewerValueVersionsAreRefused(t *testing.T) {
	for key, decode := range decoders() {
		newer := []byte(`{"v":2,"new":[1]}`)
		if isBinary(key) {
			newer = []byte{2, 99}
		}
		err := decode(KV{Key: key, Value: newer, ModRevision: 1})
		if !errors.Is(err, ErrNewerVersion) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
		for _, bad := range []string{"", "{", "[]", "{}", `{"v":0}`, `{"v":-1}`, `{"v":"1"}`, `{"v":1,"surplus":1}`, `{"v":1}x`} {
			err := decode(KV{Key: key, Value: []byte(bad), ModRevision: 1})
			if isBinary(key) && len(bad) > 0 {
				continue // its first byte is a newer version
			}
			if err == nil || errors.Is(err, ErrNewerVersion) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s = %s: %v", key, bad, err)
			}
		}
	}
	newer := Cluster{ID: "c", FeatureLevel: MaxFeatureLevel + 1}
	if _, err := DecodeCluster(KV{Key: ClusterKey, Value: newer.Encode(), ModRevision: 1}); !errors.Is(err, ErrNewerVersion) {
		t.Errorf("a newer feature level: %v", err)
	}
}

// isBinary reports whether the value of a key is binary.
func isBinary(key string) bool {
	return strings.HasPrefix(key, PartitionPrefix) || strings.HasPrefix(key, PlacementPrefix)
}

// Every prefix of a binary value is refused, and so is a byte too many.
func TestCutBinaryValuesAreRefused(t *testing.T) {
	p := somePartition()
	p.Leader, p.ISR, p.ELR, p.Last = -1, nil, nil, LastReplica{Broker: 1, Dir: idA, Lossy: true}
	var none Placement
	for key, value := range map[string][]byte{
		PartitionKey(idA, 0): p.Encode(), PlacementKey(1, idA): none.With(map[int32][16]byte{0: idA, 3: idB}).Encode(),
	} {
		decode := decoders()[key]
		if err := decode(KV{Key: key, Value: value, ModRevision: 1}); err != nil {
			t.Fatal(err)
		}
		for n := range len(value) {
			if decode(KV{Key: key, Value: value[:n], ModRevision: 1}) == nil {
				t.Errorf("%s: %d of %d bytes were accepted", key, n, len(value))
			}
		}
		if decode(KV{Key: key, Value: append(value, 0), ModRevision: 1}) == nil {
			t.Errorf("%s: a byte too many was accepted", key)
		}
	}
	for key, hostile := range map[string][]byte{
		PartitionKey(idA, 0): {1, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 7}, PlacementKey(1, idA): {1, 0xff, 0xff, 0xff, 0xff, 7},
	} {
		if err := decoders()[key](KV{Key: key, Value: hostile, ModRevision: 1}); err == nil {
			t.Errorf("%s: two billion entries in %d bytes were accepted", key, len(hostile))
		}
	}
	rule := somePartition()
	rule.AckRule = 1
	err := decoders()[PartitionKey(idA, 0)](KV{Key: PartitionKey(idA, 0), Value: rule.Encode(), ModRevision: 1})
	if !errors.Is(err, ErrNewerVersion) {
		t.Errorf("an unknown ack rule: %v", err)
	}
}

func TestInvalidBrokersAreRefused(t *testing.T) {
	for what, change := range map[string]func(*Broker){
		"two directories of one id":  func(b *Broker) { b.Dirs[1].ID = b.Dirs[0].ID },
		"a directory without an id":  func(b *Broker) { b.Dirs[1].ID = [16]byte{} },
		"two listeners of one name":  func(b *Broker) { b.Listeners[1].Listener = b.Listeners[0].Listener },
		"no feature level supported": func(b *Broker) { b.Features.Min = b.Features.Max + 1 },
	} {
		b := someBroker()
		change(&b)
		if _, err := DecodeBroker(KV{Key: BrokerKey(7), Value: b.Encode(), ModRevision: 1}); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

func TestPlacements(t *testing.T) {
	var p Placement
	p = p.With(map[int32][16]byte{2: idA, 0: idB, 5: {}})
	for i, want := range map[int32][16]byte{-1: {}, 0: idB, 1: {}, 2: idA, 3: {}, 5: {}} {
		if got, ok := p.Dir(i); got != want || ok != (want != [16]byte{}) {
			t.Errorf("partition %d: %v, %t", i, got, ok)
		}
	}
	moved := p.With(map[int32][16]byte{2: idC})
	if got, _ := p.Dir(2); got != idA {
		t.Error("a copy changed the placement")
	}
	kv := KV{Key: PlacementKey(1, idA), Value: moved.Encode(), ModRevision: 9}
	back, err := DecodePlacement(kv)
	if got, _ := back.Dir(2); err != nil || got != idC || len(back.dirs) != 2 {
		t.Errorf("%+v, %v", back, err)
	}
	if p = p.With(map[int32][16]byte{0: {}, 2: {}}); !p.IsEmpty() {
		t.Errorf("%+v is not empty", p)
	}
	if p, err = DecodePlacement(KV{Key: kv.Key}); err != nil || !p.IsEmpty() {
		t.Errorf("a missing key: %+v, %v", p, err)
	}
}

func TestInvalidPartitionsAreRefused(t *testing.T) {
	for what, change := range map[string]func(*Partition){
		"no replicas":             func(p *Partition) { *p = Partition{Leader: -1} },
		"elr outside replicas":    func(p *Partition) { p.ELR = []int32{5} },
		"elr twice":               func(p *Partition) { p.ELR = []int32{1, 1} },
		"elr in isr":              func(p *Partition) { p.ELR = []int32{2} },
		"leader is not in isr":    func(p *Partition) { p.Leader = 7 },
		"adding outside replicas": func(p *Partition) { p.Adding = []int32{5} },
		"adding twice":            func(p *Partition) { p.Adding = append(p.Adding, p.Adding...) },
		"unclean above epoch":     func(p *Partition) { p.Unclean = p.LeaderEpoch + 1 },
		"confirmed above unclean": func(p *Partition) { p.Confirmed = p.Unclean + 1 },
		"negative confirmed":      func(p *Partition) { p.Confirmed = -1 },
		"negative unclean epoch":  func(p *Partition) { p.Unclean = -1 },
		"last beside isr":         func(p *Partition) { p.Last = LastReplica{Broker: 1, Dir: idA} },
		"last is not a replica": func(p *Partition) {
			p.Leader, p.ISR, p.ELR, p.Last = -1, nil, nil, LastReplica{Broker: 5, Dir: idA}
		},
		"last without directory": func(p *Partition) {
			p.Leader, p.ISR, p.ELR, p.Last = -1, nil, nil, LastReplica{Broker: 1}
		},
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
	p.Leader, p.ISR = -1, nil
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
