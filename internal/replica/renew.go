package replica

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/view"
)

// A replica of a partition with several replicas is whole, or it is empty and copies the leader's
// log. One whose stored bytes are damaged, short or missing is neither. It is made again:
//
//	the heartbeat reports the log as damaged
//	  ─▶ the controller takes the replica out of ISR and ELR, unless it is the last member
//	  ─▶ the log is replaced (storage.Manager.Replace), and a new one is created, as for a replica
//	     that was removed and assigned again
//	  ─▶ the new log copies the leader's, and joins the ISR as every follower does
//	  ─▶ what was replaced is removed
//
// A log is replaced only when an image shows both that this replica is in neither set and that
// its damage is known to the controller. From the latter on, no request to join is accepted any
// longer that the leader decided before. A damaged log does not follow, and it is replaced in a
// later leader epoch than the one in which all this became true. Otherwise the leader might count
// what the former log acknowledged as what the new one has: both have one registration and one
// directory. The last member of ISR and ELR stays as it is and serves what it has: no other replica
// has what it lacks. Nor is a log replaced while the leader's is damaged, too, or the leader is
// fenced: what it would be copied from may lack what it has.
//
// If all that are in sync are lost before the copy is whole, and an unclean election makes up for
// that, no other replica has what was replaced. Then an operator decides about it.
//
// Each step may be the last one before a crash. The next start finds the damage again, a log that
// is not there although another member is in sync, or what was replaced.

// stillAfter is the time without a new record after which a copy counts as standing still.
const stillAfter = 5 * time.Second

// Renewal is a replica whose log was damaged and is copied again.
type Renewal struct {
	Topic     string
	Partition int32
	Leader    int32 // that it copies from; -1: none
	Why       string
	Since     time.Time
	// Have and Want are how many offsets the log has, and how many the leader had committed when it
	// last said so; Want is -1 before that. Bytes is the size of the log, and Former that of the
	// former one; 0 if nothing was left of it.
	Have, Want, Bytes, Former int64
	// Still reports that no record has come for a while although some are missing.
	Still bool
}

// renewedFor is how old the last replica is when Renewed forgets the count.
const renewedFor = 24 * time.Hour

// Renewed counts the replicas of this broker that were copied again and are in sync since. The
// count begins with the process.
func (m *Manager) Renewed() view.Renewed {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if time.Since(m.renewed.At) >= renewedFor {
		return view.Renewed{}
	}
	return m.renewed
}

// renewal is what the Manager knows of a Renewal. Guarded by Manager.mu.
type renewal struct {
	why   string
	since time.Time
	end   int64     // of the log when moved was set
	moved time.Time // when the log has last grown
}

// renew replaces logs that are damaged, so that they are made again, and removes what was set
// aside before and is not needed any longer.
func (m *Manager) renew() {
	flawed, former := m.opt.Storage.Flawed(), m.opt.Storage.Replaced()
	m.mu.RLock()
	idle := len(flawed)+len(former)+len(m.renewing) == 0
	m.mu.RUnlock()
	if idle {
		return
	}
	m.roles.Lock()
	defer m.roles.Unlock()
	if !m.applied || m.replaced {
		return
	}
	var gone []leave
	if len(flawed) == 0 {
		clear(m.damagedIn)
	}
	for _, l := range flawed {
		w, known := m.wantedOf(l.ID())
		if known && m.replaceable(w, l) && m.superseded(w) {
			gone = append(gone, m.replaceLog(w, l)...)
		}
	}
	m.queueLeaving(gone, nil)
	for _, a := range former {
		if m.superfluous(&a) {
			m.opt.Storage.RemoveReplaced(a)
		} else if w, known := m.wantedOf(a.ID); known && m.elsewhere(w) { // the copy is not complete
			m.noteRenewal(w, &renewal{why: "its log was damaged", since: a.Since}) // by a former process
		}
	}
	m.watchRenewals(time.Now())
}

func (m *Manager) wantedOf(id storage.ID) (w wanted, known bool) {
	w = wanted{m.image.TopicByID(id.Topic), id.Partition}
	return w, w.topic != nil && w.topic.Partitions.At(w.partition) != nil
}

// elsewhere reports whether this replica is expendable because another one is in sync.
func (m *Manager) elsewhere(w wanted) bool {
	p := w.topic.Partitions.At(w.partition)
	return p.Leader >= 0 && len(p.ISR) > 0 && !m.needed(w)
}

// elsewhereWhole reports whether this replica is expendable because the leader runs, and nothing is
// known of damage there.
func (m *Manager) elsewhereWhole(w wanted) bool {
	if !m.elsewhere(w) {
		return false
	}
	state, _ := m.image.State(w.topic.Partitions.At(w.partition).Leader)
	return state.Liveness != metadata.Fenced && !slices.Contains(state.Damaged, w.tp())
}

// replaceable reports whether a damaged log may be replaced by a new one, and is not being
// replaced. The caller holds roles.
func (m *Manager) replaceable(w wanted, l *storage.Log) bool {
	if m.isLeaving(w.tp()) { // to release it again would forget that a new one is to be made
		return false
	}
	state, _ := m.image.State(m.opt.Self)
	reported := slices.Contains(state.Damaged, w.tp()) || state.Fault(l.Dir().ID()) == metadata.DirFailed
	return reported && m.elsewhereWhole(w) && w.topic.Partitions.At(w.partition).HasReplica(m.opt.Self)
}

// superseded reports whether the epochs in which a damaged log has followed are over. It asks for
// another epoch if they are not. The caller holds roles.
func (m *Manager) superseded(w wanted) bool {
	epoch := w.topic.Partitions.At(w.partition).LeaderEpoch
	last, known := m.damagedIn[w.tp()]
	if known && epoch > last {
		delete(m.damagedIn, w.tp())
		return true
	}
	m.damagedIn[w.tp()] = epoch
	changes := newChanges()
	changes.raise[w.tp()] = metadata.Raise{From: epoch, Seen: -1}
	m.recorder.add(changes, nil)
	return false
}

// replaceLog ends the partition of a damaged log, and has a new log made when the old one is out of
// the way. The caller holds roles.
func (m *Manager) replaceLog(w wanted, l *storage.Log) []leave {
	why := l.Flaw()
	if why == nil { // the damaged bytes were removed meanwhile
		return nil
	}
	m.mu.RLock()
	p := m.partitions[w.tp()]
	m.mu.RUnlock()
	x, leaves := m.release(w, l)
	if !leaves {
		return nil
	}
	if p != nil { // until the new log follows, the replica is none
		r := m.roleOf(w)
		r.View.Replicas = nil
		p.SetRole(r)
	}
	m.opt.Logger.Warn("the log of a replica is damaged and is made again: it copies that of the leader", zap.Stringer("partition", w),
		zap.Int32("leader", w.topic.Partitions.At(w.partition).Leader), zap.Error(why))
	m.noteUncreated(w)
	m.noteRenewal(w, &renewal{why: why.Error(), since: time.Now()})
	x.keep = true
	return []leave{x}
}

// noteRenewal notes a renewal unless it is known.
func (m *Manager) noteRenewal(w wanted, x *renewal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.renewing[w.tp()] == nil {
		x.moved = time.Now()
		m.renewing[w.tp()] = x
	}
}

// superfluous reports whether a log that was replaced is not needed any longer: this broker has a
// whole copy of it; or other replicas are in sync, and it takes the space that the copy needs, or
// this broker has none. The caller holds roles.
func (m *Manager) superfluous(a *storage.ReplacedLog) bool {
	w, known := m.wantedOf(a.ID)
	if !known {
		return false // a deleted topic takes it along, see forgettable
	}
	p := w.topic.Partitions.At(w.partition)
	switch {
	case p.Unclean > a.Epoch:
		return false
	case !p.HasReplica(m.opt.Self):
		return m.elsewhereWhole(w)
	case m.elsewhere(w):
		return a.LowOnSpace() && m.elsewhereWhole(w)
	}
	l := m.opt.Storage.Get(a.ID)
	return slices.Contains(p.ISR, m.opt.Self) && l != nil && l.Flaw() == nil
}

// watchRenewals forgets the renewals that are complete, and notes which of the others continue. The
// caller holds roles.
func (m *Manager) watchRenewals(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tp, x := range m.renewing {
		w, known := m.wantedOf(storage.ID{Topic: tp.Topic, Partition: tp.Partition})
		if !known || !m.elsewhere(w) || !w.topic.Partitions.At(w.partition).HasReplica(m.opt.Self) {
			delete(m.renewing, tp)
			if known && slices.Contains(w.topic.Partitions.At(w.partition).ISR, m.opt.Self) {
				if now.Sub(m.renewed.At) >= renewedFor {
					m.renewed.N = 0
				}
				m.renewed = view.Renewed{N: m.renewed.N + 1, Last: w.String(), Why: x.why, At: now}
			}
			continue
		}
		if p := m.partitions[tp]; p != nil && p.log.Ends().LogEnd != x.end {
			x.end, x.moved = p.log.Ends().LogEnd, now
		}
	}
}

// Missing returns the replicas of this broker whose logs were created once and are not in any
// directory. If a directory could not be opened, they may be there, and none is returned.
func (m *Manager) Missing() (list []metadata.TopicPartition) {
	if len(m.FailedDirs()) > 0 {
		return nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for tp, x := range m.missing {
		if x.permanent {
			list = append(list, tp)
		}
	}
	return list
}

// Outlived returns the replaced logs that may have records which no replica has, and the names of
// their topics. Their files stay until a person removes them.
func (m *Manager) Outlived() (logs []storage.ReplacedLog, topics []string) {
	m.roles.Lock()
	defer m.roles.Unlock()
	for _, a := range m.opt.Storage.Replaced() {
		if w, known := m.wantedOf(a.ID); known && w.topic.Partitions.At(w.partition).Unclean > a.Epoch {
			logs, topics = append(logs, a), append(topics, w.topic.Name)
		}
	}
	return logs, topics
}

// Renewals returns the replicas that are copied again, sorted by topic and partition.
func (m *Manager) Renewals() (all []Renewal) {
	former := map[metadata.TopicPartition]storage.ReplacedLog{}
	for _, a := range m.opt.Storage.Replaced() {
		former[metadata.TopicPartition{Topic: a.Topic, Partition: a.Partition}] = a
	}
	m.roles.Lock()
	defer m.roles.Unlock()
	m.mu.RLock()
	defer m.mu.RUnlock()
	for tp, x := range m.renewing {
		w, known := m.wantedOf(storage.ID{Topic: tp.Topic, Partition: tp.Partition})
		if !known {
			continue
		}
		r := Renewal{Topic: w.topic.Name, Partition: tp.Partition, Leader: w.topic.Partitions.At(w.partition).Leader, Why: x.why,
			Since: x.since, Want: -1, Former: former[tp].Bytes}
		if p := m.partitions[tp]; p != nil {
			e := p.log.Ends()
			r.Have, r.Bytes = e.LogEnd-e.LogStart, p.log.Size()
			if committed := p.committed(); committed >= 0 {
				r.Want = max(committed-e.LogStart, r.Have)
			}
		}
		r.Still = r.Have != r.Want && time.Since(x.moved) >= stillAfter
		all = append(all, r)
	}
	sorts.Sort(all, func(a, b Renewal) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

// committed returns the high watermark of the leader that this broker follows, -1 if it is not
// known.
func (p *Partition) committed() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lead != nil {
		return -1
	}
	return p.follow.Committed()
}
