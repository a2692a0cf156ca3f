package metadata

import "slices"

type brokerJSON struct {
	header
	Member      string         `json:"member,omitempty"` // "" for 0
	Former      []string       `json:"former,omitempty"`
	Incarnation string         `json:"incarnation"`
	Dirs        []dirJSON      `json:"dirs,omitempty"`
	Listeners   []listenerJSON `json:"listeners,omitempty"`
	Rack        string         `json:"rack,omitempty"`
	Features    featuresJSON   `json:"features"`
}

type dirJSON struct {
	ID         string `json:"id"`
	Format     int32  `json:"format"`
	Checkpoint uint64 `json:"checkpoint"`
	Finding    string `json:"finding,omitempty"`
	Offline    bool   `json:"offline,omitempty"`
}

type listenerJSON struct {
	Name string `json:"name"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

type featuresJSON struct {
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

// Encode returns the value of BrokerKey, without ID and Epoch, which are in the key and the
// revision.
func (b Broker) Encode() []byte {
	w := brokerJSON{header: current, Incarnation: FormatID(b.Incarnation), Rack: b.Rack, Features: featuresJSON(b.Features)}
	if b.Member != 0 {
		w.Member = formatMember(b.Member)
	}
	for _, m := range b.Former {
		w.Former = append(w.Former, formatMember(m))
	}
	for _, d := range b.Dirs {
		dir := dirJSON{ID: FormatID(d.ID), Format: d.Format, Checkpoint: d.CheckpointSequence, Offline: d.Offline}
		if d.Finding != [16]byte{} {
			dir.Finding = FormatID(d.Finding)
		}
		w.Dirs = append(w.Dirs, dir)
	}
	for _, e := range b.Listeners {
		w.Listeners = append(w.Listeners, listenerJSON{Name: e.Listener, Host: e.Host, Port: e.Port})
	}
	return encode(w)
}

// DecodeBroker is the inverse of Broker.Encode.
func DecodeBroker(kv KV) (Broker, error) {
	k, err := keyOf(kv, KindBroker)
	if err != nil {
		return Broker{}, err
	}
	w, err := decode[brokerJSON](kv)
	if err != nil {
		return Broker{}, err
	}
	b := Broker{ID: k.Broker, Rack: w.Rack, Features: Features(w.Features), Epoch: kv.ModRevision}
	if b.Incarnation, err = ParseID(w.Incarnation); err != nil {
		return Broker{}, invalid(kv, err.Error())
	}
	if w.Member != "" {
		member, ok := parseMember(w.Member)
		if !ok || member == 0 {
			return Broker{}, invalid(kv, "invalid member id")
		}
		b.Member = member
	}
	if len(w.Former) > MaxFormer {
		return Broker{}, invalid(kv, "too many former members")
	}
	for _, text := range w.Former {
		member, ok := parseMember(text)
		if !ok || member == 0 || member == b.Member || slices.Contains(b.Former, member) {
			return Broker{}, invalid(kv, "invalid former member id")
		}
		b.Former = append(b.Former, member)
	}
	if b.Features.Min > b.Features.Max {
		return Broker{}, invalid(kv, "no feature level between min and max")
	}
	for _, d := range w.Dirs {
		dir := BrokerDir{Format: d.Format, CheckpointSequence: d.Checkpoint, Offline: d.Offline}
		if dir.ID, err = ParseID(d.ID); err != nil {
			return Broker{}, invalid(kv, err.Error())
		}
		if d.Finding != "" {
			if dir.Finding, err = ParseID(d.Finding); err != nil {
				return Broker{}, invalid(kv, err.Error())
			}
		}
		if _, twice := b.Dir(dir.ID); twice || dir.ID == [16]byte{} {
			return Broker{}, invalid(kv, "a log directory has no id, or the id of another one")
		}
		b.Dirs = append(b.Dirs, dir)
	}
	for _, l := range w.Listeners {
		if _, twice := b.Endpoint(l.Name); twice {
			return Broker{}, invalid(kv, "two listeners have the same name")
		}
		b.Listeners = append(b.Listeners, Endpoint{Listener: l.Name, Host: l.Host, Port: l.Port})
	}
	return b, nil
}

type stateJSON struct {
	header
	State       string       `json:"state"`
	Incarnation string       `json:"incarnation"`
	Unable      []unableJSON `json:"unable,omitempty"`
	Damaged     []logJSON    `json:"damaged,omitempty"`
}

type unableJSON struct {
	Dir string `json:"dir"`
	Why string `json:"why"`
}

type logJSON struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// Encode returns the value of LivenessKey.
func (s BrokerState) Encode() []byte {
	w := stateJSON{header: current, State: s.Liveness.String(), Incarnation: FormatID(s.Incarnation)}
	for _, d := range s.Unable {
		w.Unable = append(w.Unable, unableJSON{FormatID(d.ID), d.Why.String()})
	}
	for _, tp := range s.Damaged {
		w.Damaged = append(w.Damaged, logJSON{Topic: FormatID(tp.Topic), Partition: tp.Partition})
	}
	return encode(w)
}

// DecodeState is the inverse of BrokerState.Encode. For a missing key it returns a fenced broker.
func DecodeState(kv KV) (BrokerState, error) {
	if kv.ModRevision == 0 {
		return BrokerState{}, nil
	}
	w, err := decode[stateJSON](kv)
	if err != nil {
		return BrokerState{}, err
	}
	i := slices.Index(livenessNames[:], w.State)
	if i < 0 {
		return BrokerState{}, invalid(kv, "unknown state")
	}
	s := BrokerState{Liveness: Liveness(i)}
	if s.Incarnation, err = ParseID(w.Incarnation); err != nil {
		return BrokerState{}, invalid(kv, err.Error())
	}
	for _, d := range w.Unable {
		id, err := ParseID(d.Dir)
		if err != nil {
			return BrokerState{}, invalid(kv, err.Error())
		}
		why := DirFault(max(slices.Index(faultNames[:], d.Why), 0))
		if !why.Valid() {
			return BrokerState{}, invalid(kv, "unknown fault of a directory")
		}
		s.Unable = append(s.Unable, UnableDir{id, why})
	}
	for _, l := range w.Damaged {
		id, err := ParseID(l.Topic)
		if err != nil {
			return BrokerState{}, invalid(kv, err.Error())
		}
		s.Damaged = append(s.Damaged, TopicPartition{Topic: id, Partition: l.Partition})
	}
	return s, nil
}

// Gone is the value of GoneKey.
type Gone struct {
	Broker int32 `json:"broker"` // the id that the member had
}

type goneJSON struct {
	header
	Gone
}

// Encode returns the value of GoneKey.
func (g Gone) Encode() []byte { return encode(goneJSON{header: current, Gone: g}) }

// DecodeGone is the inverse of Gone.Encode.
func DecodeGone(kv KV) (Gone, error) {
	w, err := decode[goneJSON](kv)
	if err == nil && w.Broker < 0 {
		err = invalid(kv, "negative broker id")
	}
	return w.Gone, err
}

// EncodeWaiting returns the value of DeletingBrokerKey, which has no content.
func EncodeWaiting() []byte { return encode(current) }
