package format

import "encoding/binary"

// Topology is the topology of a streams group: what its members process.
type Topology struct {
	Epoch         int32
	Subtopologies []Subtopology
}

// Subtopology is a part of a topology whose tasks are numbered by the partitions of its source
// topics.
type Subtopology struct {
	ID                 string
	SourceTopics       []string
	SourceRegexes      []string
	Changelogs         []InternalTopic
	RepartitionSinks   []string // repartition topics that it writes
	RepartitionSources []InternalTopic
	Copartitioned      []CopartitionGroup
}

// InternalTopic is a topic that belongs to the application, and that the coordinator creates.
type InternalTopic struct {
	Name              string
	Partitions        int32 // 0: computed
	ReplicationFactor int16 // 0 or -1: the broker's default
	Configs           []KeyValue
}

// CopartitionGroup names source topics that must have the same number of partitions, by their
// indexes in the lists of the subtopology.
type CopartitionGroup struct{ SourceTopics, SourceRegexes, RepartitionSources []int16 }

// Encode encodes the value.
func (t Topology) Encode() []byte {
	p := appendInt32(version0(256), t.Epoch)
	p = appendUvarint(p, len(t.Subtopologies)+1)
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		p = appendStrings(appendCompact(p, s.ID), s.SourceTopics)
		p = appendInternal(appendStrings(p, s.SourceRegexes), s.Changelogs)
		p = appendInternal(appendStrings(p, s.RepartitionSinks), s.RepartitionSources)
		p = appendUvarint(p, len(s.Copartitioned)+1)
		for _, c := range s.Copartitioned {
			for _, list := range [][]int16{c.SourceTopics, c.SourceRegexes, c.RepartitionSources} {
				p = appendUvarint(p, len(list)+1)
				for _, n := range list {
					p = binary.BigEndian.AppendUint16(p, uint16(n))
				}
			}
			p = append(p, 0)
		}
		p = append(p, 0)
	}
	return append(p, 0)
}

func appendStrings(p []byte, list []string) []byte {
	p = appendUvarint(p, len(list)+1)
	for _, s := range list {
		p = appendCompact(p, s)
	}
	return p
}

func appendInternal(p []byte, list []InternalTopic) []byte {
	p = appendUvarint(p, len(list)+1)
	for _, t := range list {
		p = appendInt32(appendCompact(p, t.Name), t.Partitions)
		p = binary.BigEndian.AppendUint16(p, uint16(t.ReplicationFactor))
		p = append(appendKeyValues(p, t.Configs), 0)
	}
	return p
}

// DecodeTopology decodes a topology.
func DecodeTopology(p []byte) (t Topology, err error) {
	r := read(p)
	r.version(0)
	t.Epoch = r.int32()
	for range r.count(8) {
		s := Subtopology{ID: r.compactString(), SourceTopics: r.strings(), SourceRegexes: r.strings(), Changelogs: r.internal(),
			RepartitionSinks: r.strings(), RepartitionSources: r.internal()}
		for range r.count(4) {
			s.Copartitioned = append(s.Copartitioned,
				CopartitionGroup{SourceTopics: r.int16s(), SourceRegexes: r.int16s(), RepartitionSources: r.int16s()})
			r.tags(nil)
		}
		r.tags(nil)
		t.Subtopologies = append(t.Subtopologies, s)
	}
	r.tags(nil)
	return t, r.end("topology")
}

func (r *reader) strings() (list []string) {
	for range r.count(1) {
		list = append(list, r.compactString())
	}
	return list
}

func (r *reader) internal() (list []InternalTopic) {
	for range r.count(9) {
		list = append(list, InternalTopic{Name: r.compactString(), Partitions: r.int32(), ReplicationFactor: r.int16(),
			Configs: r.keyValues()})
		r.tags(nil)
	}
	return list
}

func (r *reader) int16s() (list []int16) {
	for range r.count(2) {
		list = append(list, r.int16())
	}
	return list
}
