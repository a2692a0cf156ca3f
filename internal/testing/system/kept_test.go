package system

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/durability"
)

// keptFormats has for each format of docs/formats.md on the disk the kept files that have it, by
// patterns of their paths: those of a release, and below "alone" those of the directories of
// TestDirectoriesOfEachFormat.
var keptFormats = map[string][]string{
	"journal file, quarantined frames":                                {"?/d/?/journal/0*.journal"},
	"checkpoint records":                                              {"?/d/?/checkpoint/*.log", "?/d/?/checkpoint/*.snapshot"},
	"producer state in checkpoints and snapshots":                     {"?/d/?/*/*.producers"},
	"snapshot and log of checkpoint and metadata":                     {"?/d/metadata/*.snapshot", "?/d/?/checkpoint/*.snapshot"},
	"copy of the metadata: records":                                   {"alone/d/logs/metadata.copy/*"}, // of a broker without a cluster
	"metadata: records of the Raft log":                               {"?/d/metadata/*.log"},
	"metadata keys and values":                                        {"?/d/metadata/*.log"}, // and each of them: keptMetadata
	"identity of a log directory and of a journal":                    {"?/d/?/chronik.dir", "?/d/?/journal/chronik.journal"},
	"high watermarks after a crash":                                   {"?/d/?/chronik.high"},
	"progress of reading segments":                                    {"?/d/?/chronik.scrub"},
	"move of a log to another directory":                              {"?/d/?/*/chronik.move"},
	"`partition.metadata`":                                            {"?/d/?/*/partition.metadata"},
	"header of the small files":                                       {"?/d/?/chronik.dir"},
	"last known paths of log directories":                             {"?/d/log-dirs"},
	"index of aborted transactions":                                   {"?/d/?/paid-?/*.txnindex"},
	"segment, other indexes":                                          {"?/d/?/*/*.log", "?/d/?/*/*.index", "?/d/?/*/*.timeindex"},
	"record batch":                                                    {"?/d/?/records-?/*.log"},
	"`__consumer_offsets`":                                            {"?/d/?/__consumer_offsets-?/*.log"},
	"`__transaction_state`":                                           {"?/d/?/__transaction_state-?/*.log"},
	"`__share_group_state`":                                           {"?/d/?/__share_group_state-?/*.log"},
	"envelope of objects":                                             {"store/*/index/*"},
	"mark of an object store: its name, as nothing reads the content": {"store/*/store/*"},
	"objects of an archive: log, pack, manifest, index": {"store/*/log/*/*/*", "store/*/pack/*", "store/*/manifest/*/*/*",
		"store/*/index/*"},
}

// neverKept are the other formats, each with the reason why no release keeps a file of it.
var neverKept = map[string]string{
	"passwords left by `chronikd user add`":       "the broker of the directory removes it within a second",
	"brokers that `chronikd secure` has numbered": "no broker has the file",
	"unfinished restore":                          "only a restore that was interrupted leaves it, for the same program",
	"table of contents of a repair's backup":      "no program reads it",
	"audit log":                                   "no program of this tree reads it",
	"chronikctl's contexts":                       "no broker has the file",
	"records as lines of JSON":                    "no broker has the file",
	"offsets of groups (CSV)":                     "no broker has the file",
}

// Every format, every kind of keys of the metadata, the present feature level, every type of groups
// and every durability profile is kept. So no format is published without files that
// all later versions must read. Until a release is published, it is kept again.
func TestEveryKindIsKept(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob(filepath.Join(releases, "*.tar.zst"))
	must.OK(t, err)
	var files []string
	var facts bytes.Buffer
	missing := append(kindsOfKeys(), fmt.Sprint("feature level ", metadata.MaxFeatureLevel))
	for _, archive := range archives {
		root := t.TempDir()
		unpackSparse(t, archive, root)
		for name := range hashes(t, root) {
			files = append(files, name)
		}
		text, err := os.ReadFile(strings.TrimSuffix(archive, ".tar.zst") + ".txt")
		must.OK(t, err)
		facts.Write(text)
		brokers, err := filepath.Glob(filepath.Join(root, "[1-9]"))
		must.OK(t, err)
		has := keptMetadata(t, brokers)
		missing = slices.DeleteFunc(missing, func(kind string) bool { return slices.Contains(has, kind) })
	}
	alone, err := filepath.Glob(filepath.Join(kept, "*.tar.gz"))
	must.OK(t, err)
	for _, archive := range alone {
		root := t.TempDir()
		unpack(t, archive, filepath.Join(root, "alone"))
		for name := range hashes(t, root) {
			files = append(files, name)
		}
	}
	page, err := os.ReadFile("../../../docs/formats.md")
	must.OK(t, err)
	missing = append(missing, keptFaults(string(page), files)...)
	for _, kind := range []string{"classic", "consumer", "share", "streams"} {
		if !strings.Contains(facts.String(), fmt.Sprintf("\ngroups of the type %s: [%q", kind, kind)) {
			missing = append(missing, "a group of the type "+kind)
		}
	}
	for _, p := range durability.Builtin() {
		if !strings.Contains(facts.String(), "\nrecords of profile-"+p.Name+"-0: ") {
			missing = append(missing, "records of the durability profile "+p.Name)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no kept release has:\n%s\nadd it to furnish, and run `make keep-release VERSION=…` of the version that is not published",
			strings.Join(missing, "\n"))
	}
}

// keptFaults compares the table of formats on the disk with the files that are kept.
func keptFaults(page string, files []string) (faults []string) {
	_, table, _ := strings.Cut(page, "\n## On the disk\n")
	table, _, _ = strings.Cut(table, "\n## Between processes\n")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, " | ")
		name := strings.TrimPrefix(cells[0], "| ")
		if len(cells) < 5 || name == "format" || neverKept[name] != "" {
			continue
		}
		if len(keptFormats[name]) == 0 {
			faults = append(faults, "the format "+name+", which has no pattern in keptFormats")
		}
		for _, pattern := range keptFormats[name] {
			if !slices.ContainsFunc(files, func(file string) bool { ok, _ := filepath.Match(pattern, file); return ok }) {
				faults = append(faults, fmt.Sprintf("the format %s: no file %s", name, pattern))
			}
		}
	}
	return faults
}

func TestAFormatThatIsNotKeptIsFound(t *testing.T) {
	const row = "\n## On the disk\n\n| format | described | version | test | fuzz |\n|---|---|---|---|---|\n| %s | a | 1 | b | c |\n"
	for _, c := range []struct{ name, file, want string }{
		{"record batch", "1/d/a/records-0/0.log", ""},
		{"record batch", "1/d/a/other-0/0.log", "the format record batch: no file ?/d/?/records-?/*.log"},
		{"new", "1/d/a/records-0/0.log", "the format new, which has no pattern in keptFormats"},
		{"audit log", "1/d/a/records-0/0.log", ""},
	} {
		if got := strings.Join(keptFaults(fmt.Sprintf(row, c.name), []string{c.file}), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// kindsOfKeys returns a text for each kind of keys of the metadata.
func kindsOfKeys() (all []string) {
	for kind := metadata.KeyKind(1); kind.Scope() != 0; kind++ {
		all = append(all, familyOf(metadata.Key{Kind: kind}))
	}
	return all
}

func familyOf(k metadata.Key) string {
	return fmt.Sprintf("keys of the metadata of kind %d, as %s", k.Kind, metadata.Key{Kind: k.Kind})
}

// keptMetadata returns the kinds of keys that brokers' metadata have, and the feature level.
func keptMetadata(t *testing.T, brokers []string) (kinds []string) {
	t.Helper()
	for _, dir := range brokers {
		keys, _, err := raftstore.ReadAll(vfs.OS(), filepath.Join(dir, "d", "metadata"))
		must.OK(t, err)
		for _, kv := range keys {
			k, err := metadata.ParseKey(kv.Key)
			must.OK(t, err)
			kinds = append(kinds, familyOf(k))
			if k.Kind == metadata.KindCluster {
				cluster, err := metadata.DecodeCluster(kv)
				must.OK(t, err)
				kinds = append(kinds, fmt.Sprint("feature level ", cluster.FeatureLevel))
			}
		}
	}
	return kinds
}

// tier makes a topic with transactions, whose old records are in the store only, and a snapshot.
func (c *nodes) tier(b *keptBroker) {
	t, text := c.t, kadm.StringPtr
	_, err := b.admin.CreateTopic(t.Context(), 1, 3, map[string]*string{"remote.storage.enable": text("true"), "segment.ms": text("1000"),
		"local.retention.ms": text("1000"), "file.delete.delay.ms": text("0")}, "old")
	must.OK(t, err)
	b.transact(t, "old", "old-committed", kgo.TryCommit)
	b.transact(t, "old", "old-aborted", kgo.TryAbort)
	c.eventually("old records are in the store only", func(ctx context.Context) string {
		b.write(t, "old", "segments")
		if at := c.localStart(ctx, b.admin, "old"); at < 3*keptRecords {
			pause(ctx, time.Second)
			return fmt.Sprint("the local log begins at ", at)
		}
		return ""
	})
	c.does("snapshot create", "uploaded")
}

// localStart returns the offset at which the log of partition 0 begins on the leader's disk, -1 if
// it is not known.
func (c *nodes) localStart(ctx context.Context, adm *kadm.Client, topic string) int64 {
	list, err := adm.ListOffsetsAfterMilli(ctx, -4, topic)
	if o, ok := list.Lookup(topic, 0); err == nil && ok && o.Err == nil {
		return o.Offset
	}
	return -1
}

// shares makes a share group that has accepted some records, rejected one, whose copy is in a topic
// of dead letters, and released the others.
func (c *nodes) shares(b *keptBroker) {
	t, ctx, text := c.t, c.t.Context(), kadm.StringPtr
	made := succeeds(t)
	made(b.admin.CreateTopic(ctx, 1, 3, nil, "jobs"))
	made(b.admin.CreateTopic(ctx, 1, 3, map[string]*string{"errors.deadletterqueue.group.enable": text("true")}, "dlq.kept"))
	b.write(t, "jobs", "job")
	for name, value := range map[string]string{"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "dlq.kept",
		"errors.deadletterqueue.copy.record.enable": "true"} {
		c.alterConfig(kmsg.ConfigResourceTypeGroupConfig, "share", name, value)
	}
	cl, err := c.client(kgo.ShareGroup("share"), kgo.ConsumeTopics("jobs"))
	must.OK(t, err)
	defer cl.Close()
	within, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var got []*kgo.Record
	for len(got) < keptRecords && within.Err() == nil {
		for _, r := range cl.PollRecords(within, keptRecords).Records() {
			status := kgo.AckRelease
			switch got = append(got, r); r.Offset {
			case 0, 1, 2, 6:
				status = kgo.AckAccept
			case 4:
				status = kgo.AckReject
			}
			cl.MarkAcks(status, r)
		}
		must.OK(t, cl.FlushAcks(within))
	}
	if len(got) < keptRecords {
		t.Fatalf("the share group got %d records", len(got))
	}
	c.eventually("a dead letter", func(ctx context.Context) string {
		ends, err := b.admin.ListEndOffsets(ctx, "dlq.kept")
		if o, _ := ends.Lookup("dlq.kept", 0); err != nil || o.Err != nil || o.Offset < 1 {
			return fmt.Sprintf("%+v, %v", o, err)
		}
		return ""
	})
}

// unregister adds a fourth broker, which leaves the cluster for good.
func (c *nodes) unregister() {
	c.launch(3)
	c.await(3)
	c.sees(0, []int{0, 1, 2, 3}, "alone", 2)
	c.end(syscall.SIGTERM, 3)
	c.run, c.seeds, c.ports = c.run[:3], c.seeds[:3], c.ports[:3]
	c.does("broker unregister 4", "unregistered")
	must.OK(c.t, os.RemoveAll(c.dirs[3]))
	c.dirs = c.dirs[:3]
}

// storeFacts returns what clients see of snapshots, of old records, and of the share group.
func (c *nodes) storeFacts(ctx context.Context, adm *kadm.Client) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	_, text := c.ctl(ctx, "snapshot list -o json")
	var all view.SnapshotList
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		say("snapshots: %v: %s", err, text)
	}
	for _, s := range all.Snapshots {
		say("snapshot %d: %d partitions, %d offline, damage %q", s.Number, s.Partitions, s.Offline, s.Damage)
	}
	say("old records of old-0 are in the store only: %t", c.localStart(ctx, adm, "old") >= 3*keptRecords)
	offsets, err := adm.DescribeShareGroupOffsets(ctx, "share")
	if err != nil {
		say("offsets of the group share: %v", err)
	}
	for _, of := range offsets {
		of.Offsets.Each(func(o kadm.ShareOffset) {
			say("share group %s in %s-%d: start %d, %v", of.Group, o.Topic, o.Partition, o.StartOffset, o.Err)
		})
	}
	_, text = c.ctl(ctx, "group peek share jobs:0 -o json")
	var peeked struct {
		Records []struct {
			Offset     int64
			State      string
			Deliveries int
			Value      string
		}
	}
	if err := json.Unmarshal([]byte(text), &peeked); err != nil {
		say("records of the share group: %v: %s", err, text)
	}
	for _, r := range peeked.Records {
		say("share group share in jobs-0: record %d, %s, %d deliveries, %q", r.Offset, r.State, r.Deliveries, r.Value)
	}
	return lines
}

// restores requires that the snapshots that a release has kept can be restored.
func (c *nodes) restores(store string) {
	c.t.Helper()
	p, err := launch(c.t.TempDir(), nil, "restore", "file://"+store, "--data-dir", "d")
	must.OK(c.t, err)
	if err := <-p.done; err != nil {
		c.t.Errorf("restore: %v\n%s", err, p.logged())
	}
}
