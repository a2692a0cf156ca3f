package metadata

import "slices"

type brokerJSON struct {
	header
	Member string   `json:"member,omitempty"` // "" for 0
	Former []string `json:"former,omitempty"`
	Broker
}

// Encode returns the value of BrokerKey, without ID and Epoch, which are in the key and the
// revision.
func (b Broker) Encode() []byte {
	w := brokerJSON{header: current, Broker: b}
	if b.Member != 0 {
		w.Member = formatMember(b.Member)
	}
	for _, m := range b.Former {
		w.Former = append(w.Former, formatMember(m))
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
	b := w.Broker
	b.ID, b.Epoch = k.Broker, kv.ModRevision
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
	for i, d := range b.Dirs {
		same := func(x BrokerDir) bool { return x.ID == d.ID }
		if d.ID == (ID{}) || slices.ContainsFunc(b.Dirs[:i], same) {
			return Broker{}, invalid(kv, "a log directory has no id, or the id of another one")
		}
	}
	for i, l := range b.Listeners {
		same := func(x Endpoint) bool { return x.Listener == l.Listener }
		if slices.ContainsFunc(b.Listeners[:i], same) {
			return Broker{}, invalid(kv, "two listeners have the same name")
		}
	}
	return b, nil
}

type stateJSON struct {
	header
	BrokerState
}

// Encode returns the value of LivenessKey.
func (s BrokerState) Encode() []byte { return encode(stateJSON{header: current, BrokerState: s}) }

// DecodeState is the inverse of BrokerState.Encode. For a missing key it returns a fenced broker.
func DecodeState(kv KV) (BrokerState, error) {
	if kv.ModRevision == 0 {
		return BrokerState{}, nil
	}
	w, err := decode[stateJSON](kv)
	if err == nil && UnknownFault(w.Unable) {
		err = invalid(kv, "a directory without a fault")
	}
	return w.BrokerState, err
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
