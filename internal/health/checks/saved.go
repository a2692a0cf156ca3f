package checks

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

// mostSaved is for how many damaged ranges a remedy has commands.
const mostSaved = 3

// saving is how a repair of the last copy gets what other replicas have: they copy the repaired log
// afterwards, and what only they had is gone.
type saving struct {
	before  string   // what comes before the broker is stopped
	restore []string // the flags that name the files to the repair
}

// saving returns the commands, or nothing if no other broker has a replica.
func (f *Facts) saving(p *view.Log) (s saving) {
	others := f.others(p)
	if !p.Replicated || len(others) == 0 {
		return s
	}
	ranges, what := p.Damages, "the offsets that cannot be read here"
	if len(ranges) == 0 { // only the repair knows them
		ranges, what = []view.Damage{{}}, "it"
	}
	var commands []string
	for _, b := range others {
		file := health.SavedFile(p.Topic, p.Partition, strconv.Itoa(int(b)))
		s.restore = append(s.restore, "--restore", file)
		var run []string
		for _, d := range ranges[:min(len(ranges), mostSaved)] {
			args := []string{"--topic", p.Topic, "--partition", strconv.Itoa(int(p.Partition))}
			if d.Next > 0 {
				args = append(args, "--from", strconv.FormatInt(d.From, 10), "--to", strconv.FormatInt(d.Next, 10))
			}
			command := logCommand("dump", f.placesOf(b), append(args, "--for-repair")...)
			run = append(run, strings.TrimSuffix(command, "`")+" >> "+file+"`")
		}
		told := ""
		if slices.Contains(f.placesOf(b), health.UnknownPlace) {
			told = " with its data directory and each of its log.dirs as " + health.UnknownPlace
		}
		commands = append(commands, "on the machine of "+health.BrokerSubject(b)+", in a new directory, run "+
			strings.Join(run, " and ")+told)
	}
	s.before = "first save what they have of " + what + ", because they copy the repaired log later and lose it: " +
		strings.Join(commands, "; ")
	if more := len(ranges) - mostSaved; more > 0 {
		s.before += fmt.Sprintf("; %s, which the dry run below names", text.Plural(more, "more range follows", "more ranges follow"))
	}
	s.before += "; bring the files to the machine of " + health.BrokerSubject(f.Cluster.Self) + ", and there, in their directory, "
	return s
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

// placesOf returns the flags that name the directories of another broker to chronikctl log.
func (f *Facts) placesOf(broker int32) []string {
	if o := f.other(broker); o != nil && o.Report != nil && len(o.Report.Places) > 0 {
		return o.Report.Places
	}
	return []string{"--dir", health.UnknownPlace}
}

// places returns the flags for the remedies of other brokers. A directory that cannot be opened
// would end their commands.
func (f *Facts) places() (flags []string) { return f.flagsOf(nil, f.Dirs) }

// whole returns the flags that name all directories of the broker to chronikctl log: a repair
// treats a directory that is not named as lost.
func (f *Facts) whole() []string {
	var inside, others []view.Dir // the data directory names those inside, in this order
	for _, d := range slices.Concat(f.Dirs, f.Unopened) {
		switch f.absolute(d.Path) {
		case f.Settings.DataDir:
			inside = append([]view.Dir{d}, inside...)
		case path.Join(f.Settings.DataDir, "logs"):
			inside = append(inside, d)
		default:
			others = append(others, d)
		}
	}
	return append([]string{"--dir", f.Settings.DataDir}, f.flagsOf(inside, others)...)
}

// flagsOf returns the flags for log directories: those inside another one that is named, and the
// others.
func (f *Facts) flagsOf(inside, others []view.Dir) (flags []string) {
	for _, d := range others {
		flags = append(flags, "--dir", f.absolute(d.Path))
	}
	all := slices.Concat(inside, others)
	if !slices.ContainsFunc(all, func(d view.Dir) bool { return d.JournalApart }) {
		return flags
	}
	for _, d := range all { // one for each directory, in their order
		flags = append(flags, "--journal", f.absolute(d.Journal))
	}
	return flags
}

// newRecords returns what can be written to a partition with a leader, as the end of what works.
func newRecords(p *view.Log) string {
	if p.MinISR > len(p.ISR) {
		return fmt.Sprintf("new ones are refused with acks=all, because %s in sync and min.insync.replicas is %d",
			text.Plural(len(p.ISR), "replica is", "replicas are"), p.MinISR)
	}
	return "new ones can be written"
}
