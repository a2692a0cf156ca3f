package sharestate

// Topics are the partitions of a version of the metadata. Its methods must not block.
type Topics interface {
	// LeaderEpoch returns the leader epoch of a partition, -1 if there is no such partition.
	LeaderEpoch(topic [16]byte, partition int32) int32
	// GroupEpoch returns the leader epoch of the partition that has a group, of the topic of group
	// coordinators, -1 if there is no such topic.
	GroupEpoch(group string) int32
}

// TopicsChanged notifies the shard of the current metadata. It has no response. The shard removes
// the states of deleted topics. A shard gets its first one right after the load, before any
// request, and it then compares all states: one of its predecessor may have been interrupted.
type TopicsChanged struct {
	Topics Topics
	// Deleted are the ids of topics that were deleted since the last TopicsChanged.
	Deleted [][16]byte
}

// removeStates is deferred: states of deleted topics are removed.
type removeStates struct{}

func (s *Shard) topicsChanged(e TopicsChanged) {
	first := s.exists == nil
	s.exists = e.Topics
	gone := map[[16]byte]bool{}
	if first {
		for id := range s.topics {
			if e.Topics.LeaderEpoch(id, 0) < 0 {
				gone[id] = true
			}
		}
	}
	for _, id := range e.Deleted {
		if s.topics[id] > 0 {
			gone[id] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	if len(s.removed) == 0 {
		s.out.Defer(removeStates{})
	}
	for st := s.oldest; st != nil; st = st.next {
		if gone[st.key.Topic] {
			s.removed = append(s.removed, st.key)
		}
	}
}

// removeStates removes states of deleted topics, some of them in each event. A topic's id is never
// used again, so that what was deleted stays deleted.
func (s *Shard) removeStates() {
	for len(s.removed) > 0 {
		if s.bytes >= eventBytes {
			s.out.Defer(removeStates{})
			return
		}
		if k := s.removed[0]; s.states[k] != nil {
			s.emitTombstone(k)
		}
		s.removed = s.removed[1:]
	}
	s.removed = nil
}
