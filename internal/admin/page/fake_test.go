package page

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/view"
)

// fake is a Source with fixed data.
type fake struct {
	broker   Status
	err      error // of all but Broker
	overview Overview
	topics   []view.Topic
	detail   TopicDetail
	records  Records
	groups   []Group
	group    GroupDetail
	conns    []view.Connection
	asked    func() // called by every method
}

func (f *fake) ask() {
	if f.asked != nil {
		f.asked()
	}
}

func (f *fake) Status(context.Context) Status { f.ask(); return f.broker }

func (f *fake) Overview(context.Context) (Overview, error) { f.ask(); return f.overview, f.err }

func (f *fake) Topics() ([]view.Topic, error) { f.ask(); return slices.Clone(f.topics), f.err }

func (f *fake) Topic(_ context.Context, name string) (TopicDetail, error) {
	f.ask()
	if f.err == nil && name != f.detail.Name {
		return TopicDetail{}, NotFound("This broker has no topic %q", name)
	}
	return f.detail, f.err
}

func (f *fake) Records(context.Context, string, int32, Which) (Records, error) {
	f.ask()
	r := f.records
	r.List = slices.Clone(r.List)
	return r, f.err
}

func (f *fake) Groups(context.Context) ([]Group, error) {
	f.ask()
	return slices.Clone(f.groups), f.err
}

func (f *fake) Group(_ context.Context, id string) (GroupDetail, error) {
	f.ask()
	if f.err == nil && id != f.group.ID {
		return GroupDetail{}, NotFound("This broker coordinates no group %q", id)
	}
	return f.group, f.err
}

func (f *fake) Connections() ([]view.Connection, error) { f.ask(); return slices.Clone(f.conns), f.err }

// now returns the time of all fakes.
func now() time.Time { return time.Date(2026, 11, 21, 16, 30, 0, 0, time.UTC) }

const gib = 1 << 30

// empty returns a broker that has just started.
func empty() (*fake, *History) {
	f := &fake{
		broker: Status{ID: 1, Version: "v1.0.0", Now: now(), Started: now().Add(-42 * time.Second), Profile: view.Profile{Name: "sync"},
			Addresses: []string{"localhost:9092"}},
		overview: Overview{
			Dirs: []view.Dir{
				{Path: "/var/lib/chronik/logs", Space: view.SpaceOK, Free: 82 * gib, Total: 100 * gib, MinFree: 5 * gib, JournalLimit: gib},
			},
			Budgets: budgets(0), Heap: 14 << 20, MemoryLimit: 2 * gib,
		},
	}
	h := &History{}
	for i := range 9 {
		h.Add(now().Add(time.Duration(i-8)*SampleEvery), Totals{Heap: 14 << 20})
	}
	return f, h
}

func budgets(part float64) []view.Budget {
	var all []view.Budget
	for i, b := range []view.Budget{
		{Name: "produce", Limit: 256 << 20},
		{Name: "other", Limit: 64 << 20},
		{Name: "unread_answers", Limit: 128 << 20},
		{Name: "parked", Limit: 32 << 20},
		{Name: "members", Limit: 64 << 20},
	} {
		b.Used = int64(part * float64(b.Limit) / float64(i+1))
		all = append(all, b)
	}
	return all
}

// loaded returns a healthy broker under load.
func loaded() (*fake, *History) {
	f, _ := empty()
	f.broker.Started = now().Add(-(3*24 + 4) * time.Hour)
	d := &f.overview.Dirs[0]
	d.Free, d.JournalBytes, d.Logs = 48*gib, 412<<20, 27
	d.SyncP50, d.SyncP99 = 0.00084, 0.0041
	f.overview.Topics, f.overview.Partitions, f.overview.Groups, f.overview.Connections = 5, 27, 3, 4
	f.overview.Budgets, f.overview.Heap = budgets(0.4), 611<<20
	f.overview.Snapshots = running()
	f.topics = []view.Topic{
		{Name: "orders", Partitions: 12, Records: 48_211_904, Bytes: 11 * gib, Ends: 50_000_000, Profile: "sync", Cleanup: "delete"},
		{Name: "payments", ID: "nNmFUAjzS9a4LbCYMlTAGQ", Partitions: 6, Records: 1_200_417, Bytes: 530 << 20, Ends: 1_200_417,
			Profile: "sync", Cleanup: "delete"},
		{Name: "customers", Partitions: 3, Records: 90_211, Bytes: 41 << 20, Ends: 412_000, Profile: "medium", Cleanup: "compact"},
		{Name: "clickstream", Partitions: 4, Records: 310_000_518, Bytes: 36 * gib, Ends: 310_000_518, Profile: "os", Cleanup: "delete"},
		{Name: "__consumer_offsets", Internal: true, Partitions: 2, Records: 812, Bytes: 91 << 10, Ends: 6120, Profile: "sync",
			Cleanup: "compact"},
	}
	f.detail = TopicDetail{Topic: f.topics[1]}
	for i := range int32(6) {
		f.detail.Partitions = append(
			f.detail.Partitions,
			view.Log{Partition: i, Leader: 1, LeaderEpoch: 3, LogStart: 120, HighWatermark: 200_000 + int64(i)*4127,
				LogEnd: 200_000 + int64(i)*4127, Bytes: 88 << 20, Segments: 2, Replicas: []int32{1}, ISR: []int32{1},
				Dir: "/var/lib/chronik/logs"},
		)
	}
	f.detail.Configs = []Config{
		{
			Name:    "chronik.durability.profile",
			Value:   "sync",
			Default: "sync",
			Source:  "broker's file",
			Set:     true,
			Doc:     "How an acknowledgement is earned.",
		},
		{
			Name:    "retention.ms",
			Value:   "604800000",
			Default: "604800000",
			Source:  "default",
			Doc:     "How long records are kept, in milliseconds.",
		},
		{
			Name:    "segment.bytes",
			Value:   "268435456",
			Default: "1073741824",
			Source:  "this topic",
			Set:     true,
			Doc:     "The size at which a segment is rolled, in bytes.",
		},
	}
	at := time.Date(2026, 11, 21, 16, 29, 58, 123e6, time.UTC)
	f.records = Records{Start: 120, High: 224_762, List: []Record{
		{
			Offset:      224_760,
			Time:        at,
			Key:         []byte("customer-17"),
			KeySize:     11,
			Value:       []byte(`{"amount": 12.50, "currency": "EUR"}`),
			ValueSize:   36,
			Headers:     []Header{{Key: "trace", Value: []byte("4bf92f3577b34da6"), ValueSize: 16}},
			HeaderCount: 1,
		},
		{
			Offset:    224_761,
			Time:      at,
			Value:     []byte{0x00, 0x00, 0x00, 0x00, 0x07, 0x02, 0x14, 0xff, 0x80, 'a', 'v', 'r', 'o', 0, 1, 2, 3, 4, 5},
			ValueSize: 19,
		},
	}}
	f.groups = []Group{
		{Group: view.Group{ID: "billing", Kind: "consumer", State: "Stable", Lag: 12}},
		{Group: view.Group{ID: "reporting", Kind: "classic", State: "Empty", Lag: 1_204_112}},
		{Group: view.Group{ID: "search", Kind: "classic", State: "Stable"}},
	}
	f.group = GroupDetail{Group: f.groups[0]}
	f.group.Assignor, f.group.Members = "uniform", []view.GroupMember{
		{ID: "2f0c1c1e-9a7e-4b1f-9be0-2ad1cf6ba121", ClientID: "billing-1", Host: "10.0.3.17",
			Assigned: map[string][]int32{"payments": {0, 1, 2}}},
		{ID: "8a4cf0a1-5e43-4c11-87a9-3ba1a2b4c0de", Instance: "b2", ClientID: "billing-2", Host: "10.0.3.18",
			Assigned: map[string][]int32{"payments": {3, 4, 5}}},
	}
	f.group.Offsets = []view.GroupOffset{{Topic: "payments", Committed: 199_988, End: 200_000, Lag: 12},
		{Topic: "payments", Partition: 1, Committed: 204_127, End: 204_127}}
	for i, c := range []view.Connection{
		{ClientID: "billing-1", Address: "10.0.3.17:51044", Software: "librdkafka", Version: "2.6.0", InFlight: 1,
			Traffic: view.Traffic{Requests: 81_201, BytesIn: 9 << 20, BytesOut: 600 << 20}},
		{ClientID: "orders-api", Address: "10.0.3.20:40112", Software: "apache-kafka-java", Version: "4.1.0", InFlight: 4,
			Traffic: view.Traffic{Requests: 9_120_004, RecordsIn: 48_211_904, BytesIn: 12 * gib, BytesOut: 800 << 20}},
		{ClientID: "clickstream", Address: "10.0.4.3:33980", Software: "kgo", Version: "v1.18.1", ThrottledMs: 400,
			Traffic: view.Traffic{Requests: 1_004_209, BytesIn: 30 * gib, BytesOut: 90 << 20}},
		{ClientID: "sarama", Address: "[2001:db8::17]:33980", Traffic: view.Traffic{Requests: 12, BytesIn: 1200, BytesOut: 4410}},
	} {
		c.ID, c.Listener, c.Principal = uint64(i), "PLAINTEXT", anonymous
		c.Opened, c.LastRequest = now().Add(-3*time.Hour), new(now().Add(-time.Duration(i)*time.Second))
		f.conns = append(f.conns, c)
	}
	return f, busyHour(1)
}

// running returns two good snapshots while the next one is being taken.
func running() *view.SnapshotList {
	return snapshotsUntil(view.Snapshots{URL: "s3://backups", IntervalMs: 300_000, Running: &view.RunningSnapshot{Number: 4711,
		SinceMs: now().Add(-2 * time.Second).UnixMilli(), UploadedBytes: 3 << 20, TotalBytes: 12 << 20}})
}

// snapshotsUntil returns two good snapshots, the newest of five minutes ago.
func snapshotsUntil(service view.Snapshots) *view.SnapshotList {
	x := &view.SnapshotList{Service: &service}
	for i, minutes := range []int{10, 5} {
		x.Snapshots = append(x.Snapshots, view.Snapshot{Number: 4600 + 50*int64(i), Partitions: 27, Bytes: 47 * gib,
			TimeMs: now().Add(-time.Duration(minutes) * time.Minute).UnixMilli()})
	}
	return x
}

// busyHour returns an hour of load without the first fifth, in which the broker was down.
func busyHour(slow float64) *History {
	h := &History{}
	bounds := []float64{.000025, .0001, .0002, .0004, .0008, .0016, .0032, .0064, .0128, .0256, .0512, .1}
	seen := func(before metrics.Distribution, n, mean float64) metrics.Distribution {
		s := metrics.Distribution{Count: before.Count + uint64(n), Sum: before.Sum + n*mean}
		for i, b := range bounds {
			part := 1 - math.Exp(-math.Pow(b/mean, 1.7))
			v := uint64(part * n)
			if i < len(before.Buckets) {
				v += before.Buckets[i].Count
			}
			s.Buckets = append(s.Buckets, metrics.Bucket{Upper: b, Count: v})
		}
		return s
	}
	var t Totals
	for i := 144; i < Points; i++ {
		x := float64(i)
		wave := 1 + .35*math.Sin(x/60) + .08*math.Sin(x*1.7) + .05*math.Sin(x*3.1)
		t.BytesIn += 5 * 21e6 * wave
		t.BytesOut += 5 * 34e6 * (1 + .3*math.Sin(x/47+1) + .06*math.Sin(x*2.3))
		t.Requests += 5 * 4100 * wave
		t.Records += 5 * 92_000 * wave
		t.Syncs = seen(t.Syncs, 5*310*wave, slow*.0009*(1+.2*math.Sin(x*.9)))
		t.Produce = seen(t.Produce, 5*3900*wave, slow*.0017*(1+.2*math.Sin(x*.8)))
		t.JournalBytes = float64(int(x*7)%400+80) * (1 << 20)
		t.Heap = 600 << 20
		h.Add(now().Add(time.Duration(i-Points+1)*SampleEvery), t)
	}
	return h
}

// ill returns a broker with five problems.
func ill() (*fake, *History) {
	f, _ := loaded()
	f.broker.Findings = []health.Finding{
		{Broker: health.NoBroker, Severity: health.Bad, Subject: "log directory /mnt/b/logs",
			Problem: "it could not be opened, its 9 partitions are offline: open /mnt/b/logs/chronik.dir: input/output error",
			Works:   "The 18 partitions in /var/lib/chronik/logs can be read and written.",
			Remedy:  "Check the disk and the kernel's log, repair or replace the disk, and restart the broker (docs/operations.md, A damaged disk)."},
		{Broker: health.NoBroker, Severity: health.Bad, Subject: "partition orders-3",
			Problem: "stored record batch is damaged: offsets 120441 to 120502 cannot be read; the next readable offset is 120503",
			Works:   "All other offsets of the partition can be read, and new records can be written.",
			Remedy:  "Run chronikctl log verify --dir /var/lib/chronik/logs after a stop; it reports how many records a repair removes."},
		{Broker: health.NoBroker, Severity: health.Bad, Subject: "partition payments-5",
			Problem: "offline: write segment 00000000000000204127.log: input/output error",
			Works:   "The other 5 partitions of the topic can be read and written.",
			Remedy:  "Restart the broker when the disk works again; acknowledged records are quarantined and replayed."},
		{Broker: health.NoBroker, Severity: health.Warn, Subject: "disk of /var/lib/chronik/logs",
			Problem: "4.10 GiB are free, less than the reserve of 5.00 GiB: records of clients are rejected",
			Works:   "Records can be read, and offsets committed.",
			Remedy:  "Free at least 1.40 GiB: chronikctl topic list -o wide shows the largest topics. Writing resumes automatically."},
		{Broker: health.NoBroker, Severity: health.Warn, Subject: "group reporting",
			Problem: "it has been in PreparingRebalance for 14 min: member loader-2 has not rejoined",
			Works:   "Other groups are not affected.",
			Remedy:  "Restart that member, or wait until its max.poll.interval.ms (30 min) has passed."},
		{Broker: health.NoBroker, Severity: health.Note, Subject: "topic clickstream",
			Problem: "profile os acknowledges records that are not durable: a power failure can lose the last seconds",
			Remedy:  "If that is not intended, run chronikctl config set topic clickstream chronik.durability.profile=sync"},
	}
	f.overview.Brokers = []view.Broker{{ID: 1, Address: "a:9092", State: "active", Leads: 27, Replicas: 36},
		{ID: 2, Address: "b:9092", State: "draining", Replicas: 36, OutOfSync: view.Partitions{Count: 3}},
		{ID: 3, Address: "c:9092", State: "fenced", Replicas: 36, OutOfSync: view.Partitions{Count: 36}}}
	f.overview.Moving = 3
	f.overview.Dirs[0].Arriving = []view.Arrival{
		{Topic: "orders", Partition: 7, From: "/mnt/b/logs", Copied: 256 << 20, Size: gib},
		{Topic: "orders", Partition: 8, From: "/mnt/b/logs", Size: gib, Error: "read segment: input/output error"},
	}
	f.overview.Waits = []view.Wait{
		{ClientID: "orders-api", Address: "10.0.3.20:40112", Request: "Produce", AgeMs: 5120.2, More: 1, Steps: []view.WaitStep{
			{Step: view.StepReplication, Partition: "orders-3", Brokers: []int32{3},
				For: "offset 5002, the high watermark is 5000; broker 3 has the records below 5000"},
			{Step: view.StepJournal, Partition: "payments-1", Dir: "/mnt/b/logs", For: "its journal to have offset 204127"}}},
		{ClientID: "clickstream", Address: "10.0.4.3:33980", AgeMs: 84, Steps: []view.WaitStep{
			{Step: view.StepThrottle, For: "the client's quota: it is not read for another 400ms"}}},
	}
	f.overview.Snapshots = snapshotsUntil(view.Snapshots{URL: "s3://backups", IntervalMs: 300_000, Failures: 3,
		LastFailureMs: now().Add(-time.Minute).UnixMilli(), LastError: "object store is full: XMinioStorageFull, no space"})
	f.overview.Snapshots.Snapshots[1].Damage, f.overview.Snapshots.Snapshots[0].Offline = "object pack/1 is missing", 2
	f.overview.Dirs[0].Free, f.overview.Dirs[0].Space, f.overview.Dirs[0].Refuses = 4198<<20, view.SpaceLow, view.RefusesClients
	f.overview.Dirs[0].SpaceMessage, f.overview.Dirs[0].Offline = f.broker.Findings[3].Problem, 2
	f.overview.Dirs = append(
		f.overview.Dirs,
		view.Dir{Path: "/mnt/b/logs", Error: f.broker.Findings[0].Problem, Logs: 9, Offline: 9},
	)
	f.topics[0].Damaged, f.topics[0].Offline, f.topics[0].Uncovered = 1, 4, 5
	f.topics[1].Offline, f.topics[1].Uncovered = 1, 1
	f.detail.Topic, f.detail.Findings = f.topics[1], f.broker.Findings[2:3]
	f.detail.Partitions[5].Offline = true
	f.detail.Partitions[5].Error = "offline: write segment 00000000000000204127.log: input/output error"
	f.detail.Partitions[5].Leader, f.detail.Partitions[5].ISR = -1, nil
	f.groups[1].Severity, f.groups[1].State, f.groups[1].Problem = health.Warn, "PreparingRebalance", f.broker.Findings[4].Problem
	return f, busyHour(9)
}
