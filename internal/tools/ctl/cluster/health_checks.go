package cluster

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// lowSpace is the fraction of a file system that should stay free.
const lowSpace = 0.05

// brokers checks that there is a controller, and adds the brokers that do not answer.
func (c *Checkup) brokers(silent map[int32]error) {
	c.Examined(text.Count(len(c.Meta.Brokers), "broker"))
	if c.Meta.Controller < 0 {
		c.Add("controller", health.Bad, "cluster", "it has no controller: topics cannot be created or changed", "see the brokers' logs")
	}
	for _, b := range c.Meta.Brokers {
		why := silent[b.NodeID]
		if why == nil {
			continue
		}
		c.silent = append(c.silent, b.NodeID)
		if !c.about(b.NodeID) {
			problem, remedy := app.Silent(why)
			severity, silent := health.Bad, "it does not answer"
			if app.QuotaRemedy(why) != "" { // it works, but lets this client wait
				severity, silent = health.Warn, "it does not answer in time"
			}
			c.add("broker", severity, health.OfBroker(b.NodeID),
				fmt.Sprintf("%s at the address that it advertises to clients, %s: %s", silent,
					net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), problem), remedy)
		}
	}
}

// about reports whether there is a finding about a broker, for example that it is down: of a member
// of the cluster, or that it does not answer.
func (c *Checkup) about(broker int32) bool {
	return slices.ContainsFunc(c.findings, func(f health.Finding) bool {
		// The findings of the quorum are about voters without which there is no metadata leader.
		known := f.Check == "broker" || c.member && (f.Check == health.CheckBrokers || f.Check == health.CheckQuorum)
		return known && f.Severity != health.Note && f.IsAbout(broker)
	})
}

// partitions checks that partitions have leaders and enough in-sync replicas.
func (c *Checkup) partitions(ctx context.Context) error {
	n := 0
	var behind, leaderless []kadm.PartitionDetail
	for _, t := range c.Meta.Topics.Sorted() {
		if t.Err != nil {
			c.Add("topic", health.Bad, "topic "+t.Topic, t.Err.Error(), "see the brokers' logs")
		}
		for _, p := range t.Partitions.Sorted() {
			n++
			if c.member {
				continue
			}
			offline := c.offline(p)
			switch {
			case len(offline) == 0 && len(p.OfflineReplicas) > 0:
				// The broker's own report covers it.
			case p.Leader < 0:
				leaderless = append(leaderless, p)
			case len(p.ISR) < len(p.Replicas):
				behind = append(behind, p)
			case slices.Contains(offline, p.Leader):
				c.Add("partition", health.Bad, subject(p),
					fmt.Sprintf("it can be neither written nor read: the log of its leader, broker %d, is offline", p.Leader),
					fmt.Sprintf(
						"the log of broker %d shows the cause; chronikctl log verify on its machine reports damage while it is stopped",
						p.Leader))
			case len(offline) > 0:
				c.Add("partition", health.Warn, subject(p), "replicas are offline on brokers "+text.Numbers(offline),
					"start these brokers, or replace their log directories")
			}
		}
	}
	for _, alike := range together(leaderless, func(p kadm.PartitionDetail) string { return because(p.Err) }) {
		c.Add("partition", health.Bad, subject(alike...), "no leader: neither writes nor reads are possible"+because(alike[0].Err),
			"bring back a replica of each; they are on brokers "+text.Numbers(replicas(alike)))
	}
	c.Examined(text.Count(n, "partition") + " of " + text.Count(len(c.Meta.Topics), "topic"))
	return c.behind(ctx, behind)
}

// together returns lists of partitions that have the same key, in the order of their first ones. A
// broker that is missing concerns many partitions; one finding says so, not one for each.
func together(partitions []kadm.PartitionDetail, key func(kadm.PartitionDetail) string) (alike [][]kadm.PartitionDetail) {
	at := map[string]int{}
	for _, p := range partitions {
		k := key(p)
		i, ok := at[k]
		if !ok {
			i = len(alike)
			at[k], alike = i, append(alike, nil)
		}
		alike[i] = append(alike[i], p)
	}
	return alike
}

// replicas returns the brokers that have replicas of any of the partitions.
func replicas(partitions []kadm.PartitionDetail) (brokers []int32) {
	for _, p := range partitions {
		brokers = append(brokers, p.Replicas...)
	}
	slices.Sort(brokers)
	return slices.Compact(brokers)
}

// subject names a partition as a chronik broker's own findings do, or returns how many there are.
func subject(partitions ...kadm.PartitionDetail) string {
	first := partitions[0]
	if len(partitions) == 1 {
		return fmt.Sprintf("partition %s-%d", first.Topic, first.Partition)
	}
	topics := map[string]bool{}
	for _, p := range partitions {
		topics[p.Topic] = true
	}
	if len(topics) == 1 {
		return fmt.Sprintf("%d partitions of topic %s", len(partitions), first.Topic)
	}
	return fmt.Sprintf("%d partitions of %d topics", len(partitions), len(topics))
}

// offline returns the brokers with an offline replica of a partition, without those whose reports
// cover it.
func (c *Checkup) offline(p kadm.PartitionDetail) []int32 {
	return slices.DeleteFunc(slices.Clone(p.OfflineReplicas), func(id int32) bool { return slices.Contains(c.reported, id) })
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

// behind judges partitions with replicas that are not in sync. Their severity depends on
// min.insync.replicas.
func (c *Checkup) behind(ctx context.Context, partitions []kadm.PartitionDetail) error {
	least, err := c.minISR(ctx, partitions)
	if err != nil {
		return err
	}
	need := func(p kadm.PartitionDetail) int { return min(least[p.Topic], len(p.Replicas)) }
	for _, alike := range together(partitions, func(p kadm.PartitionDetail) string {
		return fmt.Sprint(missing(p), len(p.Replicas), need(p))
	}) {
		c.judge(alike, need(alike[0]))
	}
	return nil
}

// missing returns the replicas of a partition that are not in sync.
func missing(p kadm.PartitionDetail) (brokers []int32) {
	for _, id := range p.Replicas {
		if !slices.Contains(p.ISR, id) {
			brokers = append(brokers, id)
		}
	}
	slices.Sort(brokers)
	return brokers
}

// judge adds a finding about partitions that miss the same replicas. need is the number of in-sync
// replicas that acks=all requires.
func (c *Checkup) judge(alike []kadm.PartitionDetail, need int) {
	p := alike[0]
	problem := fmt.Sprintf("%d of %d replicas are in sync", len(p.ISR), len(p.Replicas))
	if len(alike) == 1 {
		problem += fmt.Sprintf(" (brokers %s of %s)", text.Numbers(p.ISR), text.Numbers(p.Replicas))
	}
	remedy := "check brokers " + text.Numbers(missing(p))
	switch {
	case len(p.ISR) < need:
		c.Add("partition", health.Bad, subject(alike...), problem+fmt.Sprintf(": acks=all is refused, min.insync.replicas is %d", need),
			remedy)
	case len(p.ISR) == need && need > 1:
		c.Add("partition", health.Warn, subject(alike...), problem+": if one more fails, acks=all is refused", remedy)
	default:
		c.Add("partition", health.Warn, subject(alike...), problem, remedy)
	}
}

func (c *Checkup) minISR(ctx context.Context, partitions []kadm.PartitionDetail) (map[string]int, error) {
	least := map[string]int{}
	for _, p := range partitions {
		least[p.Topic] = 1
	}
	if len(least) == 0 {
		return least, nil
	}
	configs, err := c.adm.DescribeTopicConfigs(ctx, slices.Sorted(maps.Keys(least))...)
	switch err = app.Needs(app.BrokerError(err), app.OnTopic("describe-configs", "*")); {
	case c.lacks("min.insync.replicas of topics", err):
		return least, nil // the least that it can be
	case err != nil:
		return nil, app.Refused("describe min.insync.replicas", app.BrokerError(err), "")
	}
	for _, r := range configs {
		for _, x := range r.Configs {
			if n, err := strconv.Atoi(x.MaybeValue()); x.Key == "min.insync.replicas" && err == nil {
				least[r.Name] = n
			}
		}
	}
	return least, nil
}

// dirs checks the log directories and their free space, except those of brokers whose reports cover
// them. Members of a cluster all report, or there is a finding about them.
func (c *Checkup) dirs(ctx context.Context) {
	if c.member {
		return
	}
	all, err := c.adm.DescribeAllLogDirs(ctx, nil)
	if err = app.BrokerError(err); c.lacks("log directories", app.Needs(err, app.OnCluster("describe"))) {
		return
	}
	if err != nil {
		silent := slices.ContainsFunc(c.Meta.Brokers.NodeIDs(), c.about) // that is why
		if !app.IsUnsupported(err) && !silent {
			c.Add("log_dir", health.Warn, "log directories", "brokers do not describe them: "+err.Error(), "see the brokers' logs")
		}
		return
	}
	c.judgeDirs(all)
}

func (c *Checkup) judgeDirs(all kadm.DescribedAllLogDirs) {
	n := 0
	for _, d := range all.Sorted() {
		n++
		if !slices.Contains(c.reported, d.Broker) {
			c.judgeDir(d)
		}
	}
	c.Examined(text.Plural(n, "log directory", "log directories"))
}

func (c *Checkup) judgeDir(d kadm.DescribedLogDir) {
	where := fmt.Sprintf("broker %d, %s", d.Broker, d.Dir)
	switch {
	case d.Err != nil:
		c.Add("log_dir", health.Bad, where, "the log directory accepts no records: "+d.Err.Error(),
			"see the broker's log and its disk; the broker uses the directory again when its disk works, "+
				"or after a restart if the directory could not be opened")
	case d.TotalBytes > 0 && float64(d.UsableBytes) < lowSpace*float64(d.TotalBytes):
		c.Add("space", health.Warn, where, fmt.Sprintf("%s of %s are free", text.Bytes(d.UsableBytes), text.Bytes(d.TotalBytes)),
			"delete topics, shorten retention, or enlarge the disk")
	}
}
