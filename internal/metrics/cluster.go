package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/chronik-io/chronik/internal/view"
)

// RegisterPartitions registers the numbers of the partitions that this broker leads. Every scrape
// calls source.
func RegisterPartitions(reg prometheus.Registerer, source func() *view.Cluster) error {
	var s scraped
	led := registerLed(&s)
	s.read = func(send sendFunc) { led(send, source()) }
	return reg.Register(&s)
}

// registerLed adds the metrics of led partitions. It returns the function that sends them.
func registerLed(s *scraped) func(sendFunc, *view.Cluster) {
	led := s.gauge(nameLed, "Partitions that this broker leads.")
	underReplicated := s.gauge(nameUnderReplicated, "Partitions that this broker leads and that have a replica out of sync.")
	underMin := s.gauge(nameUnderMinISR,
		"Partitions that this broker leads and that have fewer replicas in sync than min.insync.replicas; acks=all is rejected.")
	return func(send sendFunc, now *view.Cluster) {
		self := now.Of(now.Self)
		send(led, float64(self.Leads))
		send(underReplicated, float64(self.UnderReplicated))
		send(underMin, float64(self.UnderMinISR))
	}
}

// RegisterCluster registers the metrics of a member of a cluster, with those of RegisterPartitions.
// Every scrape calls source once: it reads all partitions of the cluster.
func RegisterCluster(reg prometheus.Registerer, source func() *view.Cluster) error {
	var s scraped
	term := s.gauge(nameMetaTerm, "Term of the metadata quorum, as this broker knows it.")
	commit := s.gauge(nameMetaCommit, "Index of the last committed entry of the metadata quorum, as this broker knows it.")
	applied := s.gauge(nameMetaApplied, "Metadata revision that this broker shows.")
	leads := s.gauge(nameMetaLeader, "Whether this broker leads the metadata quorum and is the controller.")
	age := s.gauge(nameLeaseAge, "Age of the newest heartbeat of this broker that the controller has confirmed.")
	brokers := s.gauge(nameBrokers, "Registered brokers by state.", "state")
	leaderless := s.gauge(nameLeaderless, "Partitions of the whole cluster that have no leader.")
	isr := s.gauge(nameISRSize, "Partitions that this broker leads, by the number of their replicas in sync.", "size")
	eligible := s.gauge(nameEligible, "Partitions that this broker leads and that have eligible leader replicas (KIP-966).")
	led, more := registerLed(&s), registerReplication(&s)
	s.read = func(send sendFunc) {
		now := source()
		led(send, now)
		more(send, now)
		send(term, float64(now.Quorum.Term))
		send(commit, float64(now.Quorum.Commit))
		send(applied, float64(now.Revision))
		send(leads, truth(now.Quorum.Leads))
		send(age, now.LeaseAge.Seconds())
		states := map[string]int{}
		for i := range now.Brokers {
			states[now.Brokers[i].State]++
		}
		for _, state := range view.BrokerStates() {
			send(brokers, float64(states[state]), state)
		}
		send(leaderless, float64(now.WithoutLeader()))
		for size, n := range now.ISR {
			send(isr, float64(n), strconv.Itoa(size))
		}
		send(eligible, float64(now.Eligible))
	}
	return reg.Register(&s)
}

// registerReplication adds the metrics of replica streams, and of what a member knows of others. It
// returns the function that sends them.
func registerReplication(s *scraped) func(sendFunc, *view.Cluster) {
	known := s.gauge(nameHasLeader, "Whether this broker knows a leader of the metadata quorum.")
	voters := s.gauge(nameVoters, "Voters of the metadata quorum, as this broker knows them.")
	skew := s.gauge(nameSkew, "By how much the clock of the metadata leader is ahead of this broker's clock.")
	moving := s.gauge(nameMoving, "Partitions of the whole cluster that are being reassigned.")
	records := s.gauge(nameLagRecords, "Records that a follower lacks, of all partitions that this broker leads.", "follower")
	seconds := s.gauge(nameLagSeconds, "Time for which a follower has not been caught up, at most, in a partition that this broker leads.",
		"follower")
	stopped := s.gauge(nameStopped, "Replicas of this broker that cannot follow their leaders: ahead, their log has a later leader epoch; "+
		"diverged, they would discard committed records.", "reason")
	connections := s.counter(nameStreamConns, "Connections that this broker has made to leaders for replica streams.")
	frames := s.counter(nameStreamFrame, "Frames with records that this broker has sent to followers or received from leaders.", "direction")
	bytes := s.counter(nameStreamBytes, "Bytes of these frames.", "direction")
	waits := s.counter(nameStreamWaits, "How often this broker had no room left in a follower's window (replica.window.bytes).")
	truncated := s.counter(nameTruncated, "Records that replicas of this broker have discarded because their leaders do not have them.")
	refused := s.counter(nameRefusedCuts, "Truncations that replicas of this broker have refused: they would discard committed records.")
	return func(send sendFunc, now *view.Cluster) {
		send(known, truth(now.Quorum.NoLeader == 0))
		send(voters, float64(now.Quorum.Voters))
		send(skew, now.Skew.Seconds())
		send(moving, float64(now.Moving))
		for i := range now.Brokers {
			if b := &now.Brokers[i]; b.Follows {
				send(records, float64(b.Lag.Records), strconv.Itoa(int(b.ID)))
				send(seconds, float64(b.Lag.Ms)/1000, strconv.Itoa(int(b.ID)))
			}
		}
		reasons := map[bool]int{}
		for i := range now.Stopped {
			reasons[now.Stopped[i].Ahead] += now.Stopped[i].Count
		}
		send(stopped, float64(reasons[true]), "ahead")
		send(stopped, float64(reasons[false]), "diverged")
		x := &now.Streams
		send(connections, float64(x.Connections))
		send(frames, float64(x.SentFrames), "sent")
		send(frames, float64(x.ReceivedFrames), "received")
		send(bytes, float64(x.SentBytes), "sent")
		send(bytes, float64(x.ReceivedBytes), "received")
		send(waits, float64(x.Waits))
		send(truncated, float64(x.Truncated))
		send(refused, float64(x.Refused))
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// NewISRChanges returns the counter of changes of the ISRs of partitions that this broker leads,
// with the label kind: shrink or expand.
func NewISRChanges(reg prometheus.Registerer) *prometheus.CounterVec {
	return counter(promauto.With(reg), nameISRChanges,
		"Changes of the replicas in sync of partitions that this broker leads, since it started: shrink or expand.", "kind")
}

// NewElections returns the counter of elections, with the label from.
func NewElections(reg prometheus.Registerer) *prometheus.CounterVec {
	return counter(promauto.With(reg), nameElections,
		"New leader epochs of all partitions since this broker started, by where the leader comes from: isr, elr, unclean, or none.", "from")
}
