package format

import "encoding/binary"

// Offset is a committed offset.
type Offset struct {
	Offset      int64
	LeaderEpoch int32 // of the preceding record, -1 for none
	Metadata    string
	Committed   int64 // ms since 1970
	// Expires is when the offset expires, in ms since 1970, if the client set a retention
	// (OffsetCommit before version 5); -1: the configured retention applies.
	Expires int64
	Topic   [16]byte // zero: not known
}

// Encode encodes the value: in version 1 if it has an expiration time, for which later versions
// have no field, otherwise in the version that Kafka 4.3 writes.
func (o Offset) Encode() []byte {
	if o.Expires >= 0 {
		p := make([]byte, 0, 28+len(o.Metadata))
		p = binary.BigEndian.AppendUint16(p, 1)
		p = appendInt64(p, o.Offset)
		p = appendString(p, o.Metadata)
		p = appendInt64(p, o.Committed)
		return appendInt64(p, o.Expires)
	}
	p := make([]byte, 0, 48+len(o.Metadata))
	p = binary.BigEndian.AppendUint16(p, offsetVersion)
	p = appendInt64(p, o.Offset)
	p = appendInt32(p, o.LeaderEpoch)
	p = appendCompact(p, o.Metadata)
	p = appendInt64(p, o.Committed)
	if o.Topic == [16]byte{} {
		return append(p, 0)
	}
	return appendTag0(p, o.Topic[:])
}

// DecodeOffset decodes a value of any version.
func DecodeOffset(p []byte) (Offset, error) {
	r := read(p)
	v := r.version(maxOffsetVersion)
	o := Offset{Offset: r.int64(), LeaderEpoch: -1, Expires: -1}
	if v >= 3 {
		o.LeaderEpoch = r.int32()
	}
	if v >= 4 {
		o.Metadata = r.compactString()
	} else {
		o.Metadata = r.string()
	}
	o.Committed = r.int64()
	if v == 1 {
		o.Expires = max(r.int64(), -1)
	}
	if v >= 4 {
		r.tags(func(tag int, f *reader) {
			if tag == 0 {
				o.Topic = f.ID()
			}
		})
	}
	if err := r.end("committed offset"); err != nil {
		return Offset{}, err
	}
	return o, nil
}
