package metrics

import (
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/view"
)

// MaxShareGroups bounds the groups of one scrape, because clients choose their number, and
// MaxShareNames the bytes of their names.
const (
	MaxShareGroups = 1000
	MaxShareNames  = 256 << 10
)

// RegisterShares registers the share groups of the leaders of this broker. Every scrape calls
// source. It exports the first groups by name, as many as MaxShareGroups and MaxShareNames allow,
// and the number of the others. Their lags are those of RegisterGroups.
func RegisterShares(reg prometheus.Registerer, source func() view.Shares) error {
	var s scraped
	sessions := s.gauge(nameShareSessions, "Share sessions of this broker.")
	partitions := s.gauge(nameSharePartitions, "Share partitions that this broker leads and has in memory, by state.", "state")
	loads := s.counter(nameShareLoads, "States of share partitions that were loaded.")
	refused := s.counter(nameShareRefused, "Writes of share partitions that a coordinator refused, so that the state was loaded again.")
	writing := s.gauge(nameShareWriting, "Age of the oldest write of a share partition that has no answer.")
	full := s.gauge(nameShareFull, "Longest time in which a full window of a share partition has not moved.")
	omitted := s.gauge(nameShareOmitted, "Share groups that are omitted: there are too many, or a name is not valid UTF-8.")
	of := shareGroupDescs(&s)
	s.read = func(send sendFunc) {
		now := source()
		send(sessions, float64(now.Sessions))
		for state, n := range now.Partitions {
			send(partitions, float64(n), state)
		}
		send(loads, float64(now.Loads))
		send(refused, float64(now.Refused))
		var oldest, longest float64
		for i := range now.Slow {
			oldest, longest = max(oldest, now.Slow[i].Writing.Seconds()), max(longest, now.Slow[i].Full.Seconds())
		}
		send(writing, oldest)
		send(full, longest)
		shown, more := shownShares(now.Groups)
		send(omitted, float64(more))
		for i := range shown {
			of.send(send, &shown[i])
		}
	}
	return reg.Register(&s)
}

// shareDescs are the metrics of a group.
type shareDescs struct {
	members, records, delivered, redelivered, timedOut, archived, acknowledged, copied, uncopied, failing *prometheus.Desc
}

func shareGroupDescs(s *scraped) shareDescs {
	return shareDescs{
		members: s.gauge(nameShareMembers, "Share sessions of a group.", "group"),
		records: s.gauge(nameShareRecords,
			"Records between the start and the end offset of the share partitions of a group that this broker leads, by state.",
			"group", "state"),
		delivered:   s.counter(nameShareDelivered, "Deliveries to members of a share group.", "group"),
		redelivered: s.counter(nameShareRedelivered, "Deliveries of records that were delivered before.", "group"),
		timedOut:    s.counter(nameShareTimedOut, "Deliveries that ended with a lock or with the session of the member.", "group"),
		archived: s.counter(nameShareArchived,
			"Records that no member gets again although none accepted them: they were rejected, or reached the delivery limit.", "group"),
		copied:   s.counter(nameShareCopied, "Dead letters of a share group that were copied to their topic.", "group"),
		uncopied: s.counter(nameShareUncopied, "Copies of dead letters that failed and are repeated.", "group"),
		failing: s.gauge(nameShareFailing, "For how long copies of dead letters have failed, by the reason of the last failure.",
			"group", "reason"),
		acknowledged: s.counter(nameShareAcknowledged, "Records that members have acknowledged, by type.", "group", "type"),
	}
}

func (d *shareDescs) send(send sendFunc, g *view.ShareGroup) {
	send(d.members, float64(g.Sessions), g.ID)
	for state, n := range g.Records {
		send(d.records, float64(n), g.ID, state)
	}
	send(d.delivered, float64(g.Delivered), g.ID)
	send(d.redelivered, float64(g.Redelivered), g.ID)
	send(d.timedOut, float64(g.TimedOut), g.ID)
	send(d.archived, float64(g.Archived), g.ID)
	send(d.copied, float64(g.Copied), g.ID)
	send(d.uncopied, float64(g.Uncopied), g.ID)
	for reason, seconds := range g.Failing {
		send(d.failing, seconds, g.ID, reason)
	}
	for by, n := range g.Acknowledged {
		send(d.acknowledged, float64(n), g.ID, by)
	}
}

// shownShares returns the first groups with valid names, and the number of the others.
func shownShares(all []view.ShareGroup) (shown []view.ShareGroup, more int) {
	for i := range all {
		if utf8.ValidString(all[i].ID) {
			shown = append(shown, all[i])
		}
	}
	n, names := 0, 0
	for ; n < min(len(shown), MaxShareGroups); n++ {
		if names += len(shown[n].ID); names > MaxShareNames {
			break
		}
	}
	return shown[:n], len(all) - n
}
