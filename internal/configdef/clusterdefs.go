package configdef

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cluster has the settings of a broker that is a member of a cluster.
type Cluster struct {
	Name          string        // empty: the broker is alone, and the other fields have no effect
	Seeds         []string      // HOST:PORT of the brokers that form the cluster
	InterListener string        // name of the listener for other brokers; empty: the first one
	SecretFile    string        // file with the secret that brokers share; empty: none
	Heartbeat     time.Duration // between two heartbeats to the controller
	Session       time.Duration // without a heartbeat, after which a broker is fenced
	Election      time.Duration // without a message from the metadata leader, before an election
	Drain         bool          // whether a stop first moves leaderships to other brokers
	DrainTime     time.Duration // limit for that
	Balance       bool          // whether the controller elects preferred leaders at intervals
	Replica       Replica
}

// Replica has the settings of replication.
type Replica struct {
	Lag         time.Duration // a replica that is behind for longer leaves the in-sync replicas
	Stall       time.Duration // one that delays acknowledgements for longer leaves them, if enough remain
	Window      int64         // bytes on a connection to a follower that the follower has not written
	Follow      int64         // bytes from all leaders that no log has accepted yet
	CatchUpRate int64         // bytes a second that a connection reads from the disk for a follower; 0: no limit
}

// TakesReplicas is the name of the broker config that drained brokers have.
const TakesReplicas = "broker.takes.replicas"

func clusterDefs() []*Def {
	return []*Def{
		brokerDef("cluster.name", String, "",
			"The name of the cluster, the same on all its brokers. A broker without it is alone.",
			importance(High), noDefault, bounded("1 to 64 letters, digits, '.', '_' and '-'", clusterName)),
		brokerDef("cluster.seeds", List, "",
			"The addresses HOST:PORT of the 1, 3 or 5 brokers that form the cluster, the same list on all of them. "+
				"They store the metadata. A broker that is added later lists them too, and joins their cluster. "+
				"The addresses are those of inter.broker.listener.name.",
			importance(High), noDefault, bounded("1, 3 or 5 addresses HOST:PORT", seeds)),
		brokerDef("inter.broker.listener.name", String, "",
			"The listener that other brokers connect to; by default the first one.", noDefault),
		brokerDef("cluster.secret.file", String, "",
			"A file with a secret that all brokers of the cluster share. A broker accepts connections of other brokers only if they prove that they know it.",
			noDefault),
		brokerDef("broker.heartbeat.interval.ms", Int, "500",
			"The number of milliseconds between two heartbeats of this broker to the controller. "+
				"It must be well below broker.session.timeout.ms, after which a silent broker loses its leaderships.", between(50, 60_000)),
		brokerDef("broker.session.timeout.ms", Int, "3000",
			"The number of milliseconds without a heartbeat after which the controller fences a broker and moves its leaderships.",
			importance(High), between(500, 600_000)),
		brokerDef("metadata.election.ms", Int, "1000",
			"The number of milliseconds without a message from the metadata leader after which a broker asks for an election.",
			between(200, 60_000)),
		brokerDef("controlled.shutdown.enable", Boolean, "true",
			"Whether a broker that stops first moves its leaderships to other brokers. "+
				"If false, they have no leader until the others notice that it is gone."),
		brokerDef("controlled.shutdown.max.ms", Int, "30000",
			"The maximum number of milliseconds that a stop waits for leaderships to move. "+
				"It stops then in any case, so a service manager must allow it more time than that.", between(0, 600_000)),
		brokerDef("auto.leader.rebalance.enable", Boolean, "true",
			"Whether the controller moves leaderships to preferred replicas that are in sync: every 5 minutes, and 10 seconds after a broker became active."),
		brokerDef(TakesReplicas, Boolean, "true",
			"Whether new replicas may be placed on this broker. chronikctl broker drain sets it to false, and with --end to true. "+
				"It is one of the cluster's metadata, and ends when the broker is unregistered; a configuration file cannot set it.",
			func(d *Def) { d.Update = PerBroker }),
		brokerDef(LeaderRate, Long, unlimited,
			"The number of bytes per second that this broker, as a leader, sends to the replicas in "+
				"leader.replication.throttled.replicas that are not in sync. "+
				"The default means no limit; set one while partitions move and clients must not notice it.",
			dynamic(), atLeast(0)),
		brokerDef(FollowerRate, Long, unlimited,
			"The number of bytes per second that this broker copies into the replicas in "+
				"follower.replication.throttled.replicas that are not in sync. "+
				"The default means no limit; set one while partitions move and clients must not notice it.",
			dynamic(), atLeast(0)),
		brokerDef(MoveRate, Long, unlimited,
			"The number of bytes per second that this broker copies while it moves logs between its log directories. "+
				"The default means no limit.",
			dynamic(), atLeast(1)),
		brokerDef("replica.lag.time.max.ms", Long, "3000",
			"The number of milliseconds for which a replica may be behind its leader before it leaves the in-sync replicas. Kafka's default is 30000. "+
				"Acknowledgements with acks=all wait for a replica that is in sync, so this bounds how long a lost broker delays them.",
			importance(High), between(1000, 3_600_000)),
		brokerDef("replica.stall.time.max.ms", Long, "1500",
			"The number of milliseconds for which a replica may delay acknowledgements before it leaves the in-sync replicas, "+
				"if at least min.insync.replicas remain.", between(500, 3_600_000)),
		brokerDef("replica.window.bytes", Int, "8388608",
			"The maximum number of bytes that a leader has sent to a follower and that the follower has not written. "+
				"A larger one uses a fast network with a long round trip better, and takes more memory.", between(1<<20, 1<<30)),
		brokerDef("replica.follow.bytes", Int, "16777216",
			"The maximum number of bytes that a broker keeps of what arrived from leaders until its logs have accepted it. "+
				"A larger one absorbs longer pauses of a disk, and takes more memory.",
			between(1<<20, 1<<30)),
		brokerDef("replica.catchup.bytes.per.second", Long, "0",
			"The maximum number of bytes per second that a leader reads from the disk for one follower that catches up. 0 means no limit.",
			atLeast(0)),
	}
}

func (f *reader) cluster() Cluster {
	return Cluster{
		Name:          f.value("cluster.name").s,
		Seeds:         f.value("cluster.seeds").list,
		InterListener: f.value("inter.broker.listener.name").s,
		SecretFile:    f.value("cluster.secret.file").s,
		Heartbeat:     milliseconds(f.value("broker.heartbeat.interval.ms").n),
		Session:       milliseconds(f.value("broker.session.timeout.ms").n),
		Election:      milliseconds(f.value("metadata.election.ms").n),
		Drain:         f.value("controlled.shutdown.enable").b,
		DrainTime:     milliseconds(f.value("controlled.shutdown.max.ms").n),
		Balance:       f.value("auto.leader.rebalance.enable").b,
		Replica: Replica{
			Lag:         milliseconds(f.value("replica.lag.time.max.ms").n),
			Stall:       milliseconds(f.value("replica.stall.time.max.ms").n),
			Window:      f.value("replica.window.bytes").n,
			Follow:      f.value("replica.follow.bytes").n,
			CatchUpRate: f.value("replica.catchup.bytes.per.second").n,
		},
	}
}

func clusterName(d *Def, v value) error {
	if !ValidClusterName(v.s) {
		return d.invalid(v.s, "write 1 to 64 letters, digits, '.', '_' and '-'")
	}
	return nil
}

// ValidClusterName reports whether a cluster may have this name.
func ValidClusterName(name string) bool {
	if len(name) == 0 || len(name) > 64 {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// seeds accepts a list of which every majority of the brokers overlaps with every other, and which
// an even number would not make safer.
func seeds(d *Def, v value) error {
	for _, s := range v.list { // without repeated entries
		if err := seed(s); err != nil {
			return d.invalid(s, err.Error())
		}
	}
	if n := len(v.list); n != 1 && n != 3 && n != 5 {
		return d.invalid(fmt.Sprint(v.list), fmt.Sprintf("the list has %d different addresses; write 1, 3 or 5: "+
			"an even number tolerates no more failures than one address less", n))
	}
	return nil
}

func seed(s string) error {
	i := strings.LastIndexByte(s, ':')
	host, port := s[:max(i, 0)], s[i+1:]
	bracketed := strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]")
	if host == "" || strings.ContainsAny(host, " \t/") || !bracketed && strings.Contains(host, ":") {
		return errors.New("write HOST:PORT, for example broker-1.example.com:9092")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return errors.New("the port must be a number from 1 to 65535")
	}
	return nil
}
