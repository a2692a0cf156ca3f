package metadata

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Most values are JSON objects with a version, {"v":1,...}: they change rarely, and an operator can
// read them. Those of partitions and placements, of which there are many, are binary (partition.go,
// placement.go) and begin with a byte of the same version. Decoders refuse newer versions, and
// fields that their version does not have.
const valueVersion = 1

// current is the header of the values that this version writes.
var current = header{V: valueVersion}

// ErrNewerVersion reports that a newer version of chronik wrote a value.
var ErrNewerVersion = errors.New("written by a newer version of chronik")

// TopicRecord is the value of TopicKey. Name and Internal never change.
type TopicRecord struct {
	Name       string `json:"name"`
	Internal   bool   `json:"internal,omitempty"`
	Partitions int32  `json:"partitions"` // 1 or more; never decreases
}

// Name is the value of NameKey.
type Name struct {
	Topic string `json:"topic"` // the exact name
	ID    ID     `json:"id"`
}

// ProducerIDs is the value of ProducerIDsKey.
type ProducerIDs struct {
	Next int64 `json:"next"` // the first id that was never reserved
}

// header starts every value.
type header struct {
	V int `json:"v"`
}

type clusterJSON struct {
	header
	Cluster
}

type producerIDsJSON struct {
	header
	ProducerIDs
}

type nameJSON struct {
	header
	Name
}

type topicJSON struct {
	header
	TopicRecord
}

type configsJSON struct {
	header
	Set map[string]string `json:"set"`
}

type deletingJSON struct {
	header
	Name       string `json:"name"`
	Partitions int32  `json:"partitions"`
}

// Encode returns the value of ClusterKey.
func (c Cluster) Encode() []byte { return encode(clusterJSON{header: current, Cluster: c}) }

// DecodeCluster is the inverse of Cluster.Encode.
func DecodeCluster(kv KV) (Cluster, error) {
	w, err := decode[clusterJSON](kv)
	if err != nil {
		return Cluster{}, err
	}
	if w.FeatureLevel > MaxFeatureLevel {
		return Cluster{}, fmt.Errorf("feature level %d, this version of chronik knows levels up to %d: %w", w.FeatureLevel,
			MaxFeatureLevel, ErrNewerVersion)
	}
	if w.ID == "" {
		return Cluster{}, invalid(kv, "no cluster id")
	}
	if w.TransactionVersion < 0 || w.TransactionVersion > MaxTransactionVersion {
		return Cluster{}, fmt.Errorf("transaction.version %d, this version of chronik knows levels up to %d: %w", w.TransactionVersion,
			MaxTransactionVersion, ErrNewerVersion)
	}
	if w.ShareVersion < 0 || w.ShareVersion > MaxShareVersion {
		return Cluster{}, fmt.Errorf("share.version %d, this version of chronik knows levels up to %d: %w", w.ShareVersion,
			MaxShareVersion, ErrNewerVersion)
	}
	return w.Cluster, nil
}

// First returns the first keys of a cluster, without revisions. The next producer id is one of
// them, so that metadata without it have lost it, and do not mean that none was given.
func First(c Cluster) []KV {
	return []KV{{Key: ClusterKey, Value: c.Encode()}, {Key: ProducerIDsKey, Value: ProducerIDs{}.Encode()}}
}

// Encode returns the value of ProducerIDsKey.
func (p ProducerIDs) Encode() []byte { return encode(producerIDsJSON{header: current, ProducerIDs: p}) }

// DecodeProducerIDs is the inverse of ProducerIDs.Encode.
func DecodeProducerIDs(kv KV) (ProducerIDs, error) {
	w, err := decode[producerIDsJSON](kv)
	if err == nil && w.Next < 0 {
		err = invalid(kv, "negative producer id")
	}
	return w.ProducerIDs, err
}

// Encode returns the value of NameKey.
func (n Name) Encode() []byte { return encode(nameJSON{header: current, Name: n}) }

// DecodeName is the inverse of Name.Encode.
func DecodeName(kv KV) (Name, error) {
	w, err := decode[nameJSON](kv)
	return w.Name, err
}

// Encode returns the value of TopicKey.
func (t TopicRecord) Encode() []byte { return encode(topicJSON{header: current, TopicRecord: t}) }

// DecodeTopicRecord is the inverse of TopicRecord.Encode.
func DecodeTopicRecord(kv KV) (TopicRecord, error) {
	w, err := decode[topicJSON](kv)
	if err == nil && (w.Name == "" || w.Partitions < 1) {
		err = invalid(kv, "a topic must have a name and at least one partition")
	}
	return w.TopicRecord, err
}

// EncodeConfigs returns the value of TopicConfigKey and BrokerConfigKey.
func EncodeConfigs(set map[string]string) []byte {
	return encode(configsJSON{header: current, Set: set})
}

// DecodeConfigs is the inverse of EncodeConfigs. For a missing key it returns an empty map. The
// caller owns the map.
func DecodeConfigs(kv KV) (map[string]string, error) {
	if kv.ModRevision == 0 {
		return map[string]string{}, nil
	}
	w, err := decode[configsJSON](kv)
	if w.Set == nil {
		w.Set = map[string]string{}
	}
	return w.Set, err
}

// Encode returns the value of DeletingKey.
func (d Deleting) Encode() []byte {
	return encode(deletingJSON{header: current, Name: d.Name, Partitions: d.Partitions})
}

// DecodeDeleting is the inverse of Deleting.Encode.
func DecodeDeleting(kv KV) (Deleting, error) {
	k, err := keyOf(kv, KindDeleting)
	if err != nil {
		return Deleting{}, err
	}
	w, err := decode[deletingJSON](kv)
	if err == nil && (w.Name == "" || w.Partitions < 1) {
		err = invalid(kv, "a deleted topic must have a name and at least one partition")
	}
	return Deleting{ID: k.ID, Name: w.Name, Partitions: w.Partitions, Revision: kv.ModRevision}, err
}

// encode encodes one of the structs above. JSON can encode all of them, because they contain only
// strings, numbers, and maps and slices of those. If it could not, decoding would refuse the empty
// value.
func encode(v any) []byte {
	p, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return p
}

// decode checks the version first: an older chronik must report a newer version, not an unknown
// field.
func decode[T any](kv KV) (T, error) {
	var v T
	var head header
	if err := json.Unmarshal(kv.Value, &head); err != nil {
		return v, invalid(kv, err.Error())
	}
	if head.V > valueVersion {
		return v, newerVersion(kv, head.V)
	}
	if head.V < 1 {
		return v, invalid(kv, "no version")
	}
	d := json.NewDecoder(bytes.NewReader(kv.Value))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, invalid(kv, err.Error())
	}
	return v, nil
}

func newerVersion(kv KV, v int) error {
	return fmt.Errorf("value of %s has version %d, this version of chronik knows versions up to %d: %w",
		kv.Key, v, valueVersion, ErrNewerVersion)
}

func invalid(kv KV, msg string) error {
	return fmt.Errorf("value of %s at revision %d: %s", kv.Key, kv.ModRevision, msg)
}

// keyOf parses a key that must be of one family.
func keyOf(kv KV, want KeyKind) (Key, error) {
	k, err := ParseKey(kv.Key)
	if err == nil && k.Kind != want {
		err = fmt.Errorf("key %q is of another family", kv.Key)
	}
	return k, err
}
