package inspect

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/text"
)

// Act is one step of a repair.
type Act struct {
	Dir       string `json:"directory"`
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	// What describes the step. Files are the files and directories that it changes, which are
	// copied before.
	What  string   `json:"what"`
	Files []string `json:"files"`
	// Loses lists the records that are lost by the step or that cannot be restored.
	Loses []Loss `json:"loses,omitempty"`
	// Gone describes the losses other than records; empty means nothing.
	Gone string `json:"gone,omitempty"`
}

// Plan lists the steps of a repair.
type Plan struct {
	Acts []Act `json:"acts"`
	// Reopened lists the transactions that are open at the end of the partitions that lose records.
	// Their markers may be lost, and then no coordinator ends them.
	Reopened []Transaction `json:"reopened,omitempty"`
	// Torn lists the transactions that end with a later one in these partitions.
	Torn []Torn `json:"torn,omitempty"`
	// Left lists the findings that neither the repair nor startup resolves.
	Left []Finding `json:"left"`
	// Blocked is the reason why no repair is possible; empty if one is.
	Blocked string `json:"blocked,omitempty"`
}

// Loses returns the losses of all acts.
func (p *Plan) Loses() (all []Loss) {
	for i := range p.Acts {
		all = append(all, p.Acts[i].Loses...)
	}
	return all
}

// Files returns the files and directories that the steps change or remove, or that the next start
// may reuse because of them.
func (p *Plan) Files() []string {
	var all []string
	for i := range p.Acts {
		all = append(all, p.Acts[i].Files...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Plan returns the repair of the findings.
func (r *Inspection) Plan() *Plan {
	p := &Plan{Acts: []Act{}, Left: []Finding{}}
	blocked := map[string]bool{}
	for _, f := range r.Findings {
		if f.Effect == Refuses && f.Repair == "" {
			blocked[f.Dir] = true
		}
	}
	for _, d := range r.dirs {
		if d.state != nil && !blocked[d.location.Path] {
			p.Acts = append(p.Acts, d.acts()...)
			for _, l := range d.logs {
				p.Reopened = append(p.Reopened, l.open...)
				p.Torn = append(p.Torn, l.torn...)
			}
		}
	}
	for _, b := range r.rebuilds {
		p.Acts = append(p.Acts, b.act())
	}
	for _, f := range r.Findings {
		if !f.Healing() && (f.Repair == "" || blocked[f.Dir]) {
			p.Left = append(p.Left, f)
		}
	}
	if len(p.Acts) == 0 && len(p.Left) > 0 {
		p.Blocked = fmt.Sprintf("%s: %s", p.Left[0].Kind, p.Left[0].Detail)
	}
	return p
}

// acts returns the acts for a directory, in the order of their execution.
func (d *dir) acts() []Act {
	var list []Act
	add := func(l *log, what string, loses []Loss, files ...string) {
		a := Act{Dir: d.location.Path, Partition: -1, What: what, Files: files, Loses: merged(slices.Clone(loses))}
		if l != nil {
			a.Topic, a.Partition = l.st.Topic, l.st.ID.Partition
		}
		list = append(list, a)
	}
	checkpoint := []string{d.path(storage.CheckpointDir), d.path(storage.CheckpointMirror)}
	own, theirs := d.path(storage.IdentityFile), path.Join(d.location.JournalPath(), storage.JournalIdentityFile)
	if d.restored {
		add(nil, "replace the checkpoint with its copy", nil, checkpoint...)
	}
	if d.identity {
		add(nil, "write chronik.dir with the ids from the checkpoint", nil, own)
	}
	if d.journalIdentity && !d.renews() {
		add(nil, "write chronik.journal with the ids from chronik.dir", nil, theirs)
	}
	for _, name := range d.foreign {
		add(nil, "rename a file of another journal to *"+foreignSuffix, nil, name)
	}
	if d.newJournal {
		files := slices.Concat(checkpoint, []string{own, theirs}, d.journalFiles(), d.tailFiles())
		what := "copy the readable frames of the journal to quarantine files, and begin a new journal"
		if d.unreadable() {
			what = "begin a new journal"
		}
		add(nil, what, nil, files...)
		for _, l := range d.logs {
			if loses := l.journalLoss; len(loses) > 0 {
				add(l, "continue without the unreadable frames", loses)
			}
		}
	}
	for _, l := range d.logs {
		for _, a := range l.acts() {
			add(l, a.What, a.Loses, append(a.Files, checkpoint...)...)
		}
	}
	return list
}

// renews reports whether the new journal gets a new identity.
func (d *dir) renews() bool {
	return d.newJournal && (d.halfReplaced || d.journalIdentity && d.unreadable())
}

// unreadable reports whether no file of the journal is left.
func (d *dir) unreadable() bool { return d.out.JournalFiles == 0 }

// tailFiles returns the files that a new journal's repair replaces or makes of the tails of logs.
func (d *dir) tailFiles() (names []string) {
	for _, l := range d.logs {
		if l.tailBeyond == nil {
			continue
		}
		for _, p := range l.tailBeyond.parts {
			names = append(append(names, l.segmentPath(p.first)), l.segmentFiles(p.first)...)
		}
	}
	return names
}

func (d *dir) journalFiles() (names []string) {
	for _, f := range d.files {
		names = append(names, path.Join(d.location.JournalPath(), f.Name))
	}
	return names
}

const foreignSuffix = ".foreign"

// acts returns the acts for a log. The caller adds the checkpoint to the files of each.
func (l *log) acts() []Act {
	var list []Act
	add := func(what string, loses []Loss, files ...string) {
		list = append(list, Act{What: what, Loses: loses, Files: files})
	}
	if l.st.Deleted || l.unlistable {
		return nil
	}
	if l.adopted {
		var loses []Loss
		if l.st.Start > 0 {
			loses = []Loss{l.loss(0, l.st.Start)}
		}
		add("make the log again from the quarantined frames", loses, l.recovered...)
		return list
	}
	if l.absent && !l.emptied() {
		add("create the directory", nil, l.path)
	}
	if l.emptied() {
		add("create the directory; the partition begins at its known end", []Loss{l.loss(l.st.Start, l.st.Offset)}, l.path)
	}
	if l.partFile {
		add("write partition.metadata", nil, path.Join(l.path, storage.PartitionFile))
	}
	if l.reset {
		add("rebuild the state of producers and transactions from the segments", nil)
	}
	for _, base := range slices.Sorted(maps.Keys(l.gone)) {
		add(fmt.Sprintf("continue without segment %d", base), l.lostIn(base))
	}
	for _, base := range slices.Sorted(maps.Keys(l.cut)) {
		add(fmt.Sprintf("keep the %d bytes of whole batches of segment %d", l.cut[base], base), l.lostIn(base), l.segmentFiles(base)...)
	}
	if l.quarantineLost {
		add("continue with the valid frames of the quarantine file", l.quarantineLoss, l.dir.path(l.st.QuarantineFile))
	}
	if len(l.recovered) > 0 {
		add("replay the frames that were quarantined when the partition went offline", nil, l.recovered...)
	}
	if l.st.Offline != "" {
		add("put the partition online", nil)
	}
	for _, base := range slices.Sorted(maps.Keys(l.flaws)) {
		if _, short := l.cut[base]; l.gone[base] {
			continue
		} else if short {
			add(fmt.Sprintf("rewrite segment %d: %s", base, l.describe(base)), l.left[base])
			continue
		}
		add(fmt.Sprintf("rewrite segment %d: %s", base, l.describe(base)), l.left[base], l.segmentFiles(base)...)
	}
	return list
}

// segmentFiles returns the existing files of a segment, and those of which that is unknown.
func (l *log) segmentFiles(base int64) (names []string) {
	for _, suffix := range segment.Suffixes() {
		name := path.Join(l.path, segment.Name(base)+suffix)
		if has, err := exists(l.dir.fs, name); has || err != nil { // the backup returns the error before anything is changed
			names = append(names, name)
		}
	}
	return names
}

func (l *log) describe(base int64) string {
	out, numbered, epochs, records, unsure := 0, 0, 0, 0, false
	restored := restoredText(l.restored[base])
	for _, f := range l.flaws[base] {
		switch {
		case f.WrongEpoch:
			epochs++
		case f.Renumbers():
			numbered++
		case l.restores(base, &f):
		default:
			out++
			records, unsure = records+int(f.Records), unsure || f.Records == 0
		}
	}
	if restored != "" && out+numbered+epochs == 0 {
		return restored
	}
	held := ""
	switch {
	case out > 0 && !unsure:
		held = fmt.Sprintf(" with %s according to their headers", text.Plural(records, "record", "records"))
	case out > 0:
		held = ", not all with a readable header"
	}
	if restored != "" {
		restored = "; " + restored
	}
	return fmt.Sprintf("%s left out%s, %d batches renumbered, %d with a corrected leader epoch%s", text.Plural(out, "stretch", "stretches"),
		held, numbered, epochs, restored)
}

// restores reports whether a repair restores all that a flaw has.
func (l *log) restores(base int64, f *segment.Flaw) bool {
	return slices.ContainsFunc(l.restored[base], func(p donated) bool { return f.From <= p.first && p.first < f.To }) &&
		!slices.ContainsFunc(l.left[base], func(x Loss) bool { return x.From < f.To && f.From < x.To })
}

// restoredText says what a repair restores of a segment; "" if nothing.
func restoredText(pieces []donated) string {
	if len(pieces) == 0 {
		return ""
	}
	n := int64(0)
	for _, p := range pieces {
		n += p.next - p.first
	}
	return fmt.Sprintf("%s with %s restored", text.Plural(len(pieces), "batch", "batches"), text.Count(int(n), "offset"))
}

// lostInSegments returns what a repair loses of segments.
func (l *log) lostInSegments() (list []Loss) {
	if l.emptied() {
		return []Loss{l.loss(l.st.Start, l.st.Offset)}
	}
	for _, e := range l.st.Segments {
		list = append(append(list, l.lostIn(e.Base)...), l.left[e.Base]...)
	}
	return merged(list)
}

// lostIn returns the loss of the missing part of a segment, without that of its flaws.
func (l *log) lostIn(base int64) []Loss {
	if x, ok := l.ends[base]; ok && x.From < x.To {
		return []Loss{x}
	}
	return nil
}
