package system

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// part is a partition of a topic.
type part struct {
	topic string
	n     int32
}

// history records the events of a chaos run and checks each of them against the earlier ones. A
// single lock gives all events one order.
type history struct {
	session time.Duration // of members with the new protocol
	began   time.Time

	mu     sync.Mutex
	topics map[[16]byte]string // by id
	lines  []string            // the last maxLines, for the analysis of a failure
	bad    []string
	groups map[string]*groupHistory
	shelf  map[part][]string // the value of each offset, as reported to the producer or to the first reader
	acked  map[part][]bool
}

// groupHistory is the history of one group.
type groupHistory struct {
	owner     map[epochPart]string // the owner of a partition in a generation or member epoch
	holders   map[*chaosMember]*holder
	committed map[part]int64 // the highest acknowledged commit
	epoch     int32          // the highest described group epoch
	seen      map[part][]bool
	reads     int
}

type epochPart struct {
	epoch int32
	part
}

// holder is a member with the new protocol that was assigned partitions and has not reported their
// revocation.
type holder struct {
	has  map[part]bool
	beat time.Time // when the last successful heartbeat was sent: the session lasts at least from then
	left bool      // a heartbeat that leaves the group was sent
}

const (
	maxLines = 4000
	maxBad   = 20
)

func newHistory(session time.Duration) *history {
	return &history{session: session, began: time.Now(), topics: map[[16]byte]string{}, groups: map[string]*groupHistory{},
		shelf: map[part][]string{}, acked: map[part][]bool{}}
}

func (h *history) addGroup(name string) {
	h.groups[name] = &groupHistory{owner: map[epochPart]string{}, holders: map[*chaosMember]*holder{}, committed: map[part]int64{},
		seen: map[part][]bool{}}
}

// note records an event.
func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteLocked(format, args...)
}

func (h *history) noteLocked(format string, args ...any) {
	if len(h.lines) >= maxLines {
		h.lines = slices.Delete(h.lines, 0, maxLines/4)
	}
	h.lines = append(h.lines, fmt.Sprintf("%9.3f ", time.Since(h.began).Seconds())+fmt.Sprintf(format, args...))
}

// wrong records a violation.
func (h *history) wrong(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrongLocked(format, args...)
}

func (h *history) wrongLocked(format string, args ...any) {
	h.noteLocked("WRONG "+format, args...)
	if len(h.bad) < maxBad {
		h.bad = append(h.bad, h.lines[len(h.lines)-1])
	}
}

// onHeartbeat handles a heartbeat before it is sent. The member has revoked the partitions that it
// does not name.
func (h *history) onHeartbeat(m *chaosMember, req *kmsg.ConsumerGroupHeartbeatRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.groups[m.group].holders[m]
	if b == nil || req.MemberEpoch > 0 && req.Topics == nil {
		return
	}
	still := map[part]bool{}
	if req.MemberEpoch > 0 {
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				at := part{h.topics[t.TopicID], p}
				still[at] = b.has[at]
			}
		}
	}
	if len(still) != len(b.has) {
		h.noteLocked("%s in epoch %d owns %v", m.name, req.MemberEpoch, parts(still))
	}
	b.has, b.left = still, req.MemberEpoch < 0
}

// onHeartbeatResponse handles the response to a heartbeat: a member with the new protocol gets its
// assignment.
func (h *history) onHeartbeatResponse(m *chaosMember, q question, resp *kmsg.ConsumerGroupHeartbeatResponse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[m.group]
	if resp.ErrorCode != 0 {
		h.noteLocked("%s: heartbeat: %v", m.name, kerr.ErrorForCode(resp.ErrorCode))
		if resp.ErrorCode == kerr.UnknownMemberID.Code || resp.ErrorCode == kerr.FencedMemberEpoch.Code {
			delete(g.holders, m)
		}
		return
	}
	b := g.holders[m]
	if b != nil && b.left || q.req.(*kmsg.ConsumerGroupHeartbeatRequest).MemberEpoch < 0 {
		// The response to an earlier heartbeat may arrive after the member has left, or after the
		// response to its leave. The holder stays, without partitions, to recognize it.
		return
	}
	if b == nil {
		b = &holder{has: map[part]bool{}}
		g.holders[m] = b
	}
	b.beat = q.sent
	if resp.Assignment != nil {
		given := map[part]bool{}
		for _, t := range resp.Assignment.Topics {
			for _, p := range t.Partitions {
				given[part{h.topics[t.TopicID], p}] = true
			}
		}
		h.onAssigned(g, m, resp.MemberEpoch, given)
		for at := range given {
			b.has[at] = true // the member owns a removed partition until it reports the revocation
		}
	}
	h.checkHolders(g, m, b)
}

// onSyncResponse handles the response to a SyncGroup: a member with the classic protocol gets its
// assignment.
func (h *history) onSyncResponse(m *chaosMember, req *kmsg.SyncGroupRequest, resp *kmsg.SyncGroupResponse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if resp.ErrorCode != 0 {
		h.noteLocked("%s: sync of generation %d: %v", m.name, req.Generation, kerr.ErrorForCode(resp.ErrorCode))
		return
	}
	a := kmsg.NewConsumerMemberAssignment()
	if err := a.ReadFrom(resp.MemberAssignment); err != nil {
		h.wrongLocked("%s: assignment: %v", m.name, err)
		return
	}
	given := map[part]bool{}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			given[part{t.Topic, p}] = true
		}
	}
	h.onAssigned(h.groups[m.group], m, req.Generation, given)
}

// onAssigned checks that no partition is assigned to two members in the same generation or member
// epoch.
func (h *history) onAssigned(g *groupHistory, m *chaosMember, epoch int32, given map[part]bool) {
	h.noteLocked("%s is assigned in epoch %d: %v", m.name, epoch, parts(given))
	for at := range given {
		key := epochPart{epoch, at}
		if before := g.owner[key]; before != "" && before != m.name {
			h.wrongLocked("%v was assigned to %s and to %s in generation or epoch %d", at, before, m.name, epoch)
		}
		g.owner[key] = m.name
	}
}

// checkHolders checks that no partition is owned by two members with live sessions, whatever their
// epochs.
func (h *history) checkHolders(g *groupHistory, m *chaosMember, b *holder) {
	now := time.Now()
	if now.Sub(b.beat) >= h.session {
		return
	}
	for other, o := range g.holders {
		if other == m || now.Sub(o.beat) >= h.session {
			continue
		}
		for at, has := range b.has {
			if has && o.has[at] {
				h.wrongLocked("%s owns %v, and %s has not revoked it", m.name, at, other.name)
			}
		}
	}
}

// floor returns offsets that later reads must not go below.
func (h *history) floor(group string) map[part]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	floor := map[part]int64{}
	for at, n := range h.groups[group].committed {
		floor[at] = n
	}
	return floor
}

// onCommit handles an acknowledged commit. floor is the floor at the time the commit was sent, so
// the commit happened after it.
func (h *history) onCommit(m *chaosMember, generation int32, floor map[part]int64, at part, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[m.group]
	h.noteLocked("%s in epoch %d has committed %d of %v", m.name, generation, offset, at)
	if offset < floor[at] {
		h.wrongLocked("%s in epoch %d took the committed offset of %v from %d back to %d", m.name, generation, at, floor[at], offset)
	}
	g.committed[at] = max(g.committed[at], offset)
}

// onOffsetsFetched handles committed offsets that a client got. floor is the floor at the time of
// the request. Offsets that were shown are never rolled back.
func (h *history) onOffsetsFetched(who, group string, floor map[part]int64, shown map[part]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, low := range floor {
		if shown[at] < low {
			h.wrongLocked("%s: %s has committed %d of %v, but %d was returned", who, group, low, at, shown[at])
		}
	}
	g := h.groups[group]
	for at, n := range shown {
		g.committed[at] = max(g.committed[at], n)
	}
}

// onEpoch handles a described group epoch, which must not decrease.
func (h *history) onEpoch(group string, before, epoch int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[group]
	if epoch < before {
		h.wrongLocked("the epoch of %s decreased from %d to %d", group, before, epoch)
	}
	g.epoch = max(g.epoch, epoch)
}

func (h *history) epochOf(group string) int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.groups[group].epoch
}

// onProduced handles an acknowledged record.
func (h *history) onProduced(r *kgo.Record, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.wrongLocked("produce %s: %v", r.Value, err)
		return
	}
	at := part{r.Topic, r.Partition}
	h.checkRecord(at, r)
	h.acked[at] = mark(h.acked[at], r.Offset)
}

// onRead handles a record that a member has processed.
func (h *history) onRead(group string, r *kgo.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, at := h.groups[group], part{r.Topic, r.Partition}
	h.checkRecord(at, r)
	g.seen[at] = mark(g.seen[at], r.Offset)
	g.reads++
}

// checkRecord checks that an offset always has the same record.
func (h *history) checkRecord(at part, r *kgo.Record) {
	for int64(len(h.shelf[at])) <= r.Offset {
		h.shelf[at] = append(h.shelf[at], "")
	}
	switch here := &h.shelf[at][r.Offset]; {
	case *here == "":
		*here = string(r.Value)
	case *here != string(r.Value):
		h.wrongLocked("offset %d of %v is %s and %s", r.Offset, at, *here, r.Value)
	}
}

func mark(list []bool, offset int64) []bool {
	for int64(len(list)) <= offset {
		list = append(list, false)
	}
	list[offset] = true
	return list
}

// missing returns how many acknowledged records a group has not seen, and the first of them.
func (h *history) missing(group string) (n int, first string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[group]
	for at, acked := range h.acked {
		for offset, is := range acked {
			if is && (offset >= len(g.seen[at]) || !g.seen[at][offset]) {
				if n++; first == "" {
					first = fmt.Sprintf("%s, offset %d of %v", h.shelf[at][offset], offset, at)
				}
			}
		}
	}
	return n, first
}

func (h *history) ackedRecords() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, list := range h.acked {
		for _, is := range list {
			if is {
				n++
			}
		}
	}
	return n
}

func (h *history) failures() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.bad)
}

func (h *history) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}

func (p part) String() string { return fmt.Sprintf("%s-%d", p.topic, p.n) }

// parts formats a set, sorted.
func parts(set map[part]bool) []string {
	list := make([]string, 0, len(set))
	for at, is := range set {
		if is {
			list = append(list, at.String())
		}
	}
	slices.Sort(list)
	return list
}
