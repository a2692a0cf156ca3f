package format

// Streams is a streams group (KIP-1071).
type Streams struct {
	Epoch int32
	Hash  int64 // of the topology's topics, 0: not computed
	// Validated is the epoch of the topology whose topics were complete and consistent, -1: none.
	Validated int32
	// Configs are the settings that the last target was computed with; nil: not known.
	Configs []KeyValue
}

// KeyValue is a config or a tag of a client.
type KeyValue struct{ Key, Value string }

// Encode encodes the value.
func (g Streams) Encode() []byte {
	p := appendInt64(appendInt32(version0(64), g.Epoch), g.Hash)
	n := 0
	if g.Validated != -1 {
		n++
	}
	if g.Configs != nil {
		n++
	}
	p = appendUvarint(p, n)
	if g.Validated != -1 {
		p = appendInt32(append(p, 0, 4), g.Validated)
	}
	if g.Configs != nil {
		list := appendKeyValues(nil, g.Configs)
		p = append(appendUvarint(append(p, 1), len(list)), list...)
	}
	return p
}

// DecodeStreams decodes a streams group.
func DecodeStreams(p []byte) (Streams, error) {
	r := read(p)
	r.version(0)
	g := Streams{Epoch: r.int32(), Hash: r.int64(), Validated: -1}
	r.tags(func(tag int, f *reader) {
		switch tag {
		case 0:
			g.Validated = f.int32()
		case 1:
			g.Configs = f.keyValues()
		}
	})
	return g, r.end("streams group")
}

func appendKeyValues(p []byte, list []KeyValue) []byte {
	p = appendUvarint(p, len(list)+1)
	for _, e := range list {
		p = append(appendCompact(appendCompact(p, e.Key), e.Value), 0)
	}
	return p
}

func (r *reader) keyValues() (list []KeyValue) {
	for range r.count(3) {
		list = append(list, KeyValue{Key: r.compactString(), Value: r.compactString()})
		r.tags(nil)
	}
	return list
}

// StreamsMember is the metadata of a member of a streams group.
type StreamsMember struct {
	Instance, Rack       *string
	ClientID, ClientHost string
	RebalanceTimeout     int32 // ms, -1: not given
	TopologyEpoch        int32
	Process              string    // members of one process share its state directory
	Endpoint             *Endpoint // for interactive queries, nil: none
	Tags                 []KeyValue
}

// Endpoint is where a member answers interactive queries.
type Endpoint struct {
	Host string
	Port uint16
}

// Encode encodes the value.
func (m StreamsMember) Encode() []byte {
	p := appendNullable(version0(128), m.Instance)
	p = appendNullable(p, m.Rack)
	p = appendCompact(p, m.ClientID)
	p = appendCompact(p, m.ClientHost)
	p = appendInt32(p, m.RebalanceTimeout)
	p = appendInt32(p, m.TopologyEpoch)
	p = appendCompact(p, m.Process)
	if m.Endpoint == nil {
		p = append(p, 0xff)
	} else {
		p = appendCompact(append(p, 1), m.Endpoint.Host)
		p = append(p, byte(m.Endpoint.Port>>8), byte(m.Endpoint.Port), 0)
	}
	return append(appendKeyValues(p, m.Tags), 0)
}

// DecodeStreamsMember decodes a member of a streams group.
func DecodeStreamsMember(p []byte) (m StreamsMember, err error) {
	r := read(p)
	r.version(0)
	m.Instance, m.Rack = r.nullableString(), r.nullableString()
	m.ClientID, m.ClientHost = r.compactString(), r.compactString()
	m.RebalanceTimeout, m.TopologyEpoch = r.int32(), r.int32()
	m.Process = r.compactString()
	if r.int8() >= 0 && r.Err() == nil {
		m.Endpoint = &Endpoint{Host: r.compactString(), Port: uint16(r.int16())}
		r.tags(nil)
	}
	m.Tags = r.keyValues()
	r.tags(nil)
	return m, r.end("member of a streams group")
}

// Tasks are tasks of one subtopology, by partition.
type Tasks struct {
	Subtopology string
	Partitions  []int32
	// Epochs, for active tasks in a current assignment, are the member epochs in which the member
	// got each of the tasks; nil: not known.
	Epochs []int32
}

// TaskLists are the tasks of a member by role. Warmup is empty: no version of Kafka assigns any.
type TaskLists struct{ Active, Standby, Warmup []Tasks }

func (l *TaskLists) appendTo(p []byte) []byte {
	for _, list := range [][]Tasks{l.Active, l.Standby, l.Warmup} {
		p = appendUvarint(p, len(list)+1)
		for _, t := range list {
			p = appendInts(appendCompact(p, t.Subtopology), t.Partitions)
			if t.Epochs == nil {
				p = append(p, 0)
				continue
			}
			p = appendTag0(p, appendInts(nil, t.Epochs))
		}
	}
	return p
}

func (r *reader) taskLists() (l TaskLists) {
	for _, list := range []*[]Tasks{&l.Active, &l.Standby, &l.Warmup} {
		for range r.count(3) {
			t := Tasks{Subtopology: r.compactString(), Partitions: r.ints()}
			r.tags(func(tag int, f *reader) {
				if tag == 0 {
					t.Epochs = f.ints()
				}
			})
			if t.Epochs != nil && len(t.Epochs) != len(t.Partitions) {
				r.fail("%d epochs for %d tasks", len(t.Epochs), len(t.Partitions))
			}
			*list = append(*list, t)
		}
	}
	return l
}

// StreamsTarget is the target assignment of a member of a streams group.
type StreamsTarget TaskLists

// Encode encodes the value.
func (t StreamsTarget) Encode() []byte {
	return append((*TaskLists)(&t).appendTo(version0(64)), 0)
}

// DecodeStreamsTarget decodes the target assignment of a member.
func DecodeStreamsTarget(p []byte) (StreamsTarget, error) {
	r := read(p)
	r.version(0)
	t := StreamsTarget(r.taskLists())
	r.tags(nil)
	return t, r.end("target assignment of a member of a streams group")
}

// StreamsCurrent is the current assignment of a member of a streams group.
type StreamsCurrent struct {
	Epoch, Previous int32
	State           int8
	Assigned        TaskLists
	Revoking        TaskLists // to be revoked before the member's epoch advances
}

// Encode encodes the value.
func (c StreamsCurrent) Encode() []byte {
	p := appendInt32(version0(128), c.Epoch)
	p = append(appendInt32(p, c.Previous), byte(c.State))
	return append(c.Revoking.appendTo(c.Assigned.appendTo(p)), 0)
}

// DecodeStreamsCurrent decodes the current assignment of a member.
func DecodeStreamsCurrent(p []byte) (c StreamsCurrent, err error) {
	r := read(p)
	r.version(0)
	c.Epoch, c.Previous, c.State = r.int32(), r.int32(), r.int8()
	c.Assigned, c.Revoking = r.taskLists(), r.taskLists()
	r.tags(nil)
	return c, r.end("current assignment of a member of a streams group")
}
