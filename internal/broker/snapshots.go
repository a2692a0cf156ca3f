package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

const (
	// snapshotTime bounds how long a request about snapshots waits for the metadata leader.
	snapshotTime = 3 * time.Second
	// maxSnapshotAsk bounds a view.SnapshotAsk, in bytes. shownSnapshots is how many of the newest
	// snapshots an answer has.
	maxSnapshotAsk = 4 << 10
	shownSnapshots = 1000
)

// Snapshots returns all about the snapshots of the cluster. It waits for the metadata leader, up to
// snapshotTime.
func (b *Handler) Snapshots(ctx context.Context) (x view.SnapshotList) {
	list := b.image().Snapshots()
	for _, s := range list[max(0, len(list)-shownSnapshots):] {
		x.Snapshots = append(x.Snapshots, s.View())
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	if state, err := b.opt.Cluster.Snapshots(ctx); err != nil {
		x.Error = "the broker that leads the metadata does not answer: " + err.Error()
	} else {
		x.Service = &state
	}
	return x
}

// askSnapshot passes a request of an operator to the metadata leader: a view.SnapshotAsk as JSON,
// like the answer. Its outcome follows in the state of the service.
func (b *Handler) askSnapshot(ctx context.Context, body []byte) []byte {
	var q view.SnapshotAsk
	if err := decodeTagged(body, maxSnapshotAsk, &q); err != nil {
		return encoded(view.SnapshotAnswer{Error: err.Error()})
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	a, err := b.opt.Cluster.AskSnapshot(ctx, q)
	if a.Error == "" {
		b.recordChange(ctx, snapshotVerbs[q.Action], fmt.Sprintf("Snapshot:%d", q.Number), err)
	}
	if err != nil {
		a.Error = "the broker that leads the metadata does not answer: " + err.Error()
	}
	return encoded(a)
}

// snapshotVerbs are the operations of the audit log.
var snapshotVerbs = map[string]string{view.CreateSnapshot: "CREATE", view.DeleteSnapshot: "DELETE", view.VerifySnapshot: "DESCRIBE"}

// encoded returns a value that JSON can represent.
func encoded(v any) []byte {
	p, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return p
}
