package metadata

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/testing/golden"
)

// Exact keys and values, so that no change of the format goes unnoticed.
func TestFormatIsFixed(t *testing.T) {
	keys := secret.New(make([]byte, ScramSHA256.KeySize()))
	credential := Credential{Mechanism: ScramSHA256, Iterations: 4096, Salt: secret.Of("salt"), StoredKey: keys, ServerKey: keys}
	tenant := quota.Entity{User: quota.Of("u")}
	var none Placement
	values := map[string][]byte{
		ClusterKey:                Cluster{ID: "c", Generation: idB, FeatureLevel: 1, TransactionVersion: 2}.Encode(),
		ProducerIDsKey:            ProducerIDs{Next: 1 << 60}.Encode(),
		BrokerKey(7):              someBroker().Encode(),
		LivenessKey(7):            BrokerState{Liveness: Active, Incarnation: idA, Unable: []UnableDir{{idB, DirLow}}}.Encode(),
		GoneKey(3):                Gone{Broker: 7}.Encode(),
		NameKey("a.b"):            Name{Topic: "a.b", ID: idA}.Encode(),
		TopicKey(idA):             TopicRecord{Name: "a.b", Internal: true, Partitions: 3}.Encode(),
		PartitionKey(idA, 0):      somePartition().Encode(),
		PlacementKey(1, idA):      none.With(map[int32][16]byte{0: idA, 3: idB}).Encode(),
		ACLPrefix + FormatID(idB): EncodeACL(someACL("a")),
		DeletingKey(idA):          Deleting{ID: idA, Name: "x", Partitions: 2}.Encode(),
		TopicConfigKey(idA):       EncodeConfigs(map[string]string{"b": "2", "a": "1"}),
		UserKey("u"):              User{Credentials: []Credential{credential}}.Encode(),
		LoginsKey:                 Logins{Salt: secret.Of("sixteen bytes or"), Bootstrapped: true}.Encode(),
		BrokerConfigKey(7):        EncodeConfigs(map[string]string{"c": "3"}),
		GroupConfigKey("g"):       EncodeConfigs(map[string]string{"d": "4"}),
		SubscriptionKey("s"):      EncodeConfigs(map[string]string{"e": "5"}),
		SnapshotKey(1 << 40):      someSnapshot().Encode(),
		MarkKey:                   Mark{Time: 5}.Encode(),
		CollectionKey:             Collection{Time: 6, Generation: idB}.Encode(),
		ObjectStoreKey:            ObjectStore{Mark: idA}.Encode(),
		TierKey(TopicPartition{idA, 3}): (&Tier{Manifest: idB, Start: 5, End: 90, Bytes: 700, Epoch: 4,
			Epochs: []EpochStart{{0, 0}, {4, 50}}, Generation: idA}).Encode(),
		QuotaKey(tenant): Quota{Limits: map[string]float64{"producer_byte_rate": 100}}.Encode(),
	}
	values[DeletingBrokerKey(idA, 7)] = EncodeWaiting()
	for kind := KindCluster; int(kind) < len(families); kind++ {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(values)), func(key string) bool {
			k, err := ParseKey(key)
			return err == nil && k.Kind == kind
		}) {
			t.Errorf("no value is of the kind of %s", Key{Kind: kind})
		}
		if s := kind.Scope(); s < OfCluster || s > OfObjects {
			t.Errorf("kind %d has scope %d: say what its keys are about", kind, s)
		}
	}
	for key, value := range values { // of each topic, TopicOf names it
		id, ok := TopicOf(KV{Key: key, Value: value, ModRevision: 1})
		if named := key == NameKey("a.b") || strings.Contains(key, FormatID(idA)); ok != named || ok && id != idA {
			t.Errorf("TopicOf(%s) = %s, %t, want %t", key, FormatID(id), ok, named)
		}
	}
	var lines []string
	for key, value := range values {
		if value[0] == '{' {
			lines = append(lines, fmt.Sprintf("%q %s\n\n", key, value))
		} else {
			lines = append(lines, fmt.Sprintf("%q %x\n\n", key, value))
		}
	}
	slices.Sort(lines)
	got := strings.TrimSuffix(strings.Join(lines, ""), "\n")
	golden.File(t, "testdata/values.txt", got, "go test ./internal/metadata -run FormatIsFixed")
}
