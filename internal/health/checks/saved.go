package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

// unitConfig is the configuration of the unit: no broker knows which file another one has read.
const unitConfig = "/etc/chronik/chronikd.yaml"

// mostSaved is for how many damaged ranges a remedy has commands.
const mostSaved = 3

// mostName is how many bytes of a topic's name the file with its records has.
const mostName = 100

// ofLog returns the beginning of a finding about a log of this broker. It names the only log
// directory to the other brokers, whose remedies may have a command for it. Of several, another one
// may have a log that this one has replaced.
func (f *Facts) ofLog(p *view.Log) health.Finding {
	x := health.OfLog(p.String())
	if len(f.Dirs) <= 1 && !slices.ContainsFunc(f.Dirs, func(d view.Dir) bool { return d.JournalApart }) && p.Dir != "" {
		x.About.Dir = f.absolute(p.Dir)
	}
	return x
}

// saving is how to save what other replicas have of a log before it is repaired as the last copy:
// they copy the repaired log then, without what it lacks, and what they had is gone.
type saving struct {
	before string // the repair
	after  string // the start that follows it
}

// saving returns the commands, or nothing if no other broker has a replica.
func (f *Facts) saving(p *view.Log) saving {
	others := f.others(p)
	if !p.Replicated || len(others) == 0 {
		return saving{}
	}
	ranges, what := p.Damages, "the offsets that cannot be read here"
	if len(ranges) == 0 { // only the repair knows them
		ranges, what = []view.Damage{{}}, "it"
	}
	var commands, files []string
	for _, b := range others {
		var run []string
		for _, d := range ranges[:min(len(ranges), mostSaved)] {
			args := []string{"--topic", p.Topic, "--partition", strconv.Itoa(int(p.Partition))}
			file := fmt.Sprintf("%s-%d.broker-%d.json", p.Topic[:min(len(p.Topic), mostName)], p.Partition, b)
			if d.Next > 0 {
				args = append(args, "--from", strconv.FormatInt(d.From, 10), "--to", strconv.FormatInt(d.Next, 10))
				file = strings.Replace(file, ".broker-", fmt.Sprintf(".from-%d.broker-", d.From), 1)
			}
			// It may have replaced its log by a copy of this one.
			command := logCommand("dump", f.dirOf(b, p), append(args, "--for-produce", "--and-replaced")...)
			run, files = append(run, strings.TrimSuffix(command, "`")+" > "+file+"`"), append(files, file)
		}
		commands = append(commands, "on the machine of "+health.BrokerSubject(b)+", in a new directory, run "+strings.Join(run, " and "))
	}
	s := saving{before: "first save what they have of " + what + ", because they copy the repaired log later and lose it: " +
		strings.Join(commands, "; ")}
	if more := len(ranges) - mostSaved; more > 0 {
		s.before += fmt.Sprintf("; likewise for %s, which `chronikctl log verify` lists", text.Plural(more, "more range", "more ranges"))
	}
	s.before += "; the repair removes all that `chronikctl log verify` lists after the stop, in all partitions of the directory, so " +
		"before it save the same way what others have of the rest of that; then, on the machine of " +
		health.BrokerSubject(f.Cluster.Self) + ", "
	s.after = ", and when `chronikctl cluster health` shows all replicas in sync (if another one leads until then, follow its finding), " +
		f.again(p, files) + "; leave out those of transactions that were aborted; they get new offsets"
	switch {
	case p.Internal:
		s.after = "; the saved files tell what the broker knew, such as the offsets of groups for `chronikctl group reset`"
	case strings.Contains(p.CleanupPolicy, "compact"):
		s.after += ", so leave out those whose keys have newer records"
	}
	return s
}

// again is how records are written again that were saved in files. Another replica than the
// repaired one may lead after all, and have them.
func (f *Facts) again(p *view.Log, files []string) string {
	produce := health.Command("chronikctl", "produce", p.Topic, "--input", "json", "--same-partition", "--file", files[0])
	if len(p.Damages) == 0 {
		return "write again with " + produce + " those lines of " + files[0] + " whose offsets the repair lost"
	}
	d, more := p.Damages[0], ""
	if len(files) > 1 {
		more = ", and likewise from the other files, from one of those with the same offsets"
	}
	return "run " + health.Command("chronikctl", "consume", p.Topic, "-p", strconv.Itoa(int(p.Partition)), "--from",
		strconv.FormatInt(d.From, 10), "--until", strconv.FormatInt(d.Next, 10)) + ", remove what it prints from " + files[0] +
		", and write the rest again with " + produce + more
}

// others returns the other brokers with a replica of a partition.
func (f *Facts) others(p *view.Log) (list []int32) {
	for _, id := range p.Replicas {
		if f.Cluster != nil && id != f.Cluster.Self {
			list = append(list, id)
		}
	}
	return list
}

// dirOf returns the flags that name the directory with another broker's replica to chronikctl log.
func (f *Facts) dirOf(broker int32, p *view.Log) []string {
	if o := f.other(broker); o != nil && o.Report != nil {
		for i := range o.Report.Findings {
			if x := &o.Report.Findings[i]; slices.Contains(ofLogs, x.Check) && x.IsAboutLog(p.String()) && len(x.About.Partitions) == 1 &&
				x.About.Dir != "" {
				return []string{"--dir", x.About.Dir}
			}
		}
	}
	return []string{"--config", unitConfig}
}

// newRecords returns what can be written to a partition with a leader, as the end of what works.
func newRecords(p *view.Log) string {
	if p.MinISR > len(p.ISR) {
		return fmt.Sprintf("new ones are refused with acks=all, because %s in sync and min.insync.replicas is %d",
			text.Plural(len(p.ISR), "replica is", "replicas are"), p.MinISR)
	}
	return "new ones can be written"
}
