package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// TestPromisesAreKept checks the table of promises with whole brokers: for every profile and acks
// value it produces records, causes the failure of the row, and starts a broker on the remaining
// disk. That broker must have what the row promises. Time is synctest's and a sync takes none of
// it, so that "50 ms and one sync" is 50 ms.
func TestPromisesAreKept(t *testing.T) {
	for _, profile := range durability.Builtin() {
		rows := map[int16][]durability.Promise{}
		for _, row := range profile.Promises() {
			if row.Setting.Replicas == 1 { // three replicas need a cluster
				rows[row.Setting.Acks] = append(rows[row.Setting.Acks], row)
			}
		}
		if len(rows) != 3 {
			t.Fatalf("profile %s promises for %d values of acks", profile.Name, len(rows))
		}
		for acks, rows := range rows {
			t.Run(fmt.Sprintf("%s/acks=%d", profile.Name, acks), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { keepsPromises(t, profile, acks, rows) })
			})
		}
	}
}

// keepsPromises produces for a while and causes the failures now and then.
func keepsPromises(t *testing.T, profile durability.Profile, acks int16, rows []durability.Promise) {
	disk := crashfs.New(1)
	n := newNode(t, func(o *nodeOptions) { o.fs, o.pipe = disk, true })
	id := n.topic(t, "t", 1, "chronik.durability.profile", profile.Name)
	w := n.dial(t)
	defer w.Close()
	var acked []time.Time // when the record at an offset was acknowledged
	for i := range 60 {
		req := produceRequest("", id, acks, plain(t, fmt.Sprint(i)))
		req.SetVersion(13)
		must(t, w.send(req))
		if acks != 0 {
			resp, err := w.receive(req)
			must(t, err)
			if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(i) {
				t.Fatalf("record %d: %+v", i, p)
			}
			acked = append(acked, time.Now())
		}
		if i%20 == 19 {
			for _, row := range rows {
				happens(t, disk, id, profile, row, acked)
			}
		}
		time.Sleep(time.Duration(i%7) * time.Millisecond)
	}
}

// happens applies a row's failure to a copy of the disk and checks what a broker finds on it.
func happens(t *testing.T, disk *crashfs.FS, id [16]byte, profile durability.Profile, row durability.Promise, acked []time.Time) {
	var images []*crashfs.FS
	switch row.Failure {
	case durability.ProcessCrash:
		images = append(images, disk.KillImage(1))
	case durability.LeaderPowerLoss:
		for _, m := range crashfs.Modes() {
			images = append(images, disk.PowerLossImage(m, 1))
		}
	case durability.AllButOneLost: // the only replica is the remaining one
		return
	default:
		t.Fatalf("failure %v is not known here", row.Failure)
	}
	due := 0 // how many acknowledged records must be there
	for _, at := range acked {
		switch row.Loss {
		case durability.LosesNothing:
			due++
		case durability.LosesInterval:
			if time.Since(at) > profile.Interval {
				due++
			}
		case durability.LosesPageCache, durability.NothingPromised:
		default:
			t.Fatalf("%+v: what is lost is not known here", row)
		}
	}
	for i, image := range images {
		n := newNode(t, func(o *nodeOptions) { o.fs, o.pipe = image, true })
		if there := n.readAll(t, id); there < due {
			t.Errorf("%v, image %d: %d records are there of %d acknowledged, and %d must be (%v)", row.Failure, i, there, len(acked), due,
				row)
		}
	}
}

// readAll reads partition 0 and checks that the record at every offset has that number, once.
func (n *node) readAll(t *testing.T, id [16]byte) int {
	t.Helper()
	w := n.dial(t)
	defer w.Close()
	next := int64(0)
	for {
		p := ask[*kmsg.FetchResponse](t, w, 13, fetchRequest(next, named("", id))).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.HighWatermark < next {
			t.Fatalf("fetch at %d: %+v", next, p)
		}
		if len(p.RecordBatches) == 0 {
			return int(next)
		}
		for rest := p.RecordBatches; len(rest) > 0; {
			b, more, err := record.Next(rest)
			must(t, err)
			must(t, b.CheckCRC())
			must(t, b.Each(record.Limits{Bytes: 1 << 20}, func(r record.Record) error {
				if r.Offset != next || string(r.Value) != fmt.Sprint(next) {
					return fmt.Errorf("at offset %d is %d: %s", next, r.Offset, r.Value)
				}
				next++
				return nil
			}))
			rest = more
		}
	}
}
