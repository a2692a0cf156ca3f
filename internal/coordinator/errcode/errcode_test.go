package errcode

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// declared lists the exported errors that a package below declares.
func declared(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
	must.OK(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must.OK(t, err)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				for _, id := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(id.Name, "Err") {
						names = append(names, f.Name.Name+"."+id.Name)
					}
				}
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("no errors found in %s", dir)
	}
	return names
}

// A log that changes its directory, is being created or was closed is served again within moments,
// here or elsewhere: no disk has failed. Markers get the same answer as records.
func TestALogThatIsAwayForAMomentIsLedElsewhere(t *testing.T) {
	for _, err := range []error{
		storage.ErrMoving, storage.ErrClosed, fmt.Errorf("%w: %w", replica.ErrOffline, replica.ErrCreating),
	} {
		err := fmt.Errorf("append to t-0: %w", err)
		if c := Of(err); c != kerr.NotLeaderForPartition {
			t.Errorf("%v: records get %v", err, c)
		}
		if c := OfMarker(err); c != kerr.NotLeaderForPartition {
			t.Errorf("%v: markers get %v", err, c)
		}
	}
}

// I2: every error of the packages below becomes an error of the protocol.
func TestEveryErrorHasACode(t *testing.T) {
	known := map[string]error{
		"replica.ErrUnknownPartition": replica.ErrUnknownPartition, "replica.ErrOffline": replica.ErrOffline,
		"replica.ErrCreating":  replica.ErrCreating,
		"replica.ErrNotLeader": replica.ErrNotLeader, "replica.ErrFencedEpoch": replica.ErrFencedEpoch,
		"replica.ErrUnknownEpoch": replica.ErrUnknownEpoch, "replica.ErrNotEnoughReplicas": replica.ErrNotEnoughReplicas,
		"replica.ErrNotEnoughReplicasAfterAppend": replica.ErrNotEnoughReplicasAfterAppend,
		"replica.ErrTimedOut":                     replica.ErrTimedOut, "replica.ErrOffsetNotAvailable": replica.ErrOffsetNotAvailable,
		"replica.ErrPolicy": replica.ErrPolicy, "replica.ErrDeleted": replica.ErrDeleted,
		"storage.ErrOffsetOutOfRange": storage.ErrOffsetOutOfRange, "storage.ErrFailed": storage.ErrFailed,
		"storage.ErrLowSpace": storage.ErrLowSpace, "storage.ErrMoving": storage.ErrMoving, "replica.ErrTier": replica.ErrTier,
		"storage.ErrCopyLeft": storage.ErrCopyLeft,
		"storage.ErrCorrupt":  storage.ErrCorrupt, "storage.ErrClosed": storage.ErrClosed,
		"storage.ErrFencedEpoch":            storage.ErrFencedEpoch,
		"storage.ErrOutOfOrderSequence":     storage.ErrOutOfOrderSequence,
		"storage.ErrInvalidProducerEpoch":   storage.ErrInvalidProducerEpoch,
		"producers.ErrOutOfOrderSequence":   producers.ErrOutOfOrderSequence,
		"producers.ErrInvalidProducerEpoch": producers.ErrInvalidProducerEpoch,
		"storage.ErrTransactionOpen":        storage.ErrTransactionOpen,
		"storage.ErrUnverified":             storage.ErrUnverified,
		"storage.ErrTooManyTransactions":    storage.ErrTooManyTransactions,
		"storage.ErrCoordinatorFenced":      storage.ErrCoordinatorFenced,
		"storage.ErrForeignMarker":          storage.ErrForeignMarker,
		"producers.ErrTransactionOpen":      producers.ErrTransactionOpen,
		"producers.ErrUnverified":           producers.ErrUnverified,
		"producers.ErrTooManyTransactions":  producers.ErrTooManyTransactions,
		"producers.ErrCoordinatorFenced":    producers.ErrCoordinatorFenced,
		"producers.ErrForeignMarker":        producers.ErrForeignMarker,

		"coordinator.ErrNotCoordinator": coordinator.ErrNotCoordinator, "coordinator.ErrNoShard": coordinator.ErrNoShard,
		"coordinator.ErrRefused": coordinator.ErrRefused, "coordinator.ErrLoading": coordinator.ErrLoading,
		"coordinator.ErrBusy":         coordinator.ErrBusy,
		"metadata.ErrConflict":        metadata.ErrConflict,
		"metadata.ErrFailed":          metadata.ErrFailed,
		"metadata.ErrClosed":          metadata.ErrClosed,
		"metadata.ErrUnknown":         metadata.ErrUnknown,
		"metadata.ErrTooLarge":        metadata.ErrTooLarge,
		"metadata.ErrUnavailable":     metadata.ErrUnavailable,
		"controller.ErrNotController": controller.ErrNotController,
	}
	never := map[string]string{ // no request causes them
		"storage.ErrExists": "Create",
		"storage.ErrGap":    "a follower's append",

		"replica.ErrNotReplica": "a follower's subscription",
		"replica.ErrDiverged":   "a follower's truncation",
		"replica.ErrReplaced":   "the metadata's subscribers",
		"storage.ErrLocked":     "Open",

		"storage.ErrMoveCanceled": "the goroutine that moves logs",
		"storage.ErrForeign":      "Open",

		"storage.ErrNotHeld": "the upload of a snapshot",
		"replica.ErrVoid":    "the upload of a snapshot",

		"metadata.ErrCompacted":    "a watcher, which reads the whole state",
		"metadata.ErrNewerVersion": "the decoder of values, at the start and while changes are applied",
	}
	seen := map[string]bool{}
	for _, dir := range []string{"replica", "storage", "storage/producers", "coordinator", "metadata", "controller"} {
		for _, name := range declared(t, dir) {
			seen[name] = true
			err, ok := known[name]
			if !ok {
				if never[name] == "" {
					t.Errorf("%s is new: give it a code, or say who meets it instead of requests", name)
				}
				continue
			}
			if c := Of(fmt.Errorf("append to t-0: %w", fmt.Errorf("%w: because", err))); c == nil || c == kerr.UnknownServerError {
				t.Errorf("%s has code %v", name, c)
			}
		}
	}
	for name := range known {
		if !seen[name] {
			t.Errorf("%s is not declared", name)
		}
	}
	for name := range never {
		if !seen[name] {
			t.Errorf("%s is not declared", name)
		}
	}
}

func TestEveryKindOfRefusalHasACode(t *testing.T) {
	for k := record.Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		if c := Of(fmt.Errorf("x: %w", &record.Error{Kind: k})); c == nil || c == kerr.UnknownServerError {
			t.Errorf("a batch that is %s has code %v", k, c)
		}
	}
	// Brokers get these, as answers to their registrations and heartbeats; clients never do.
	ofBrokers := []controller.Kind{controller.InconsistentClusterID, controller.UnsupportedVersion, controller.DuplicateBroker,
		controller.StaleBrokerEpoch, controller.UnknownMember}
	for k := controller.InvalidTopic; k < controller.EndOfKinds; k++ {
		c := Of(&controller.Error{Kind: k})
		if has := c != kerr.UnknownServerError; c == nil || has == slices.Contains(ofBrokers, k) {
			t.Errorf("kind %d of the controller has code %v", k, c)
		}
	}
}

func TestAnUnknownErrorIsNeverSuccess(t *testing.T) {
	for _, err := range []error{
		errors.New("an unexpected error"), &record.Error{}, &record.Error{Kind: 200}, &controller.Error{}, &kerr.Error{},
		fmt.Errorf("code 0: %w", &kerr.Error{}), errors.Join(errors.New("a"), errors.New("b")), record.ErrShort,
	} {
		for name, of := range map[string]func(error) *kerr.Error{"Of": Of, "OfMarker": OfMarker} {
			if c := of(err); c != kerr.UnknownServerError {
				t.Errorf("%s(%#v): %v", name, err, c)
			}
		}
		if c := OfCoordinator(err); c != kerr.CoordinatorNotAvailable {
			t.Errorf("OfCoordinator(%#v): %v", err, c)
		}
	}
	if Of(nil) != nil || OfCoordinator(nil) != nil || OfMarker(nil) != nil {
		t.Error("no error has a code")
	}
}

func TestATableLineIsReachable(t *testing.T) {
	for _, l := range slices.Concat(coordinators, others) {
		if got := Of(l.err); got != l.code {
			t.Errorf("%v: %v, want %v: an earlier line hides it", l.err, got, l.code)
		}
	}
}

// A coordinator's error may match that of its log. Members expect the coordinator's, and senders of
// markers the log's.
func TestErrorsOfACoordinatorsLog(t *testing.T) {
	both := func(of, log error) error { return fmt.Errorf("marker for o-0: %w", fmt.Errorf("%w: %w", of, log)) }
	for _, c := range []struct {
		err             error
		members, marker *kerr.Error
	}{
		{both(coordinator.ErrRefused, replica.ErrNotEnoughReplicas), kerr.CoordinatorNotAvailable, kerr.NotEnoughReplicas},
		{both(coordinator.ErrRefused, storage.ErrLowSpace), kerr.CoordinatorNotAvailable, kerr.KafkaStorageError},
		{both(coordinator.ErrNotCoordinator, replica.ErrNotLeader), kerr.NotCoordinator, kerr.NotLeaderForPartition},
		{both(coordinator.ErrNotCoordinator, replica.ErrFencedEpoch), kerr.NotCoordinator, kerr.NotLeaderForPartition},
		{both(coordinator.ErrNotCoordinator, replica.ErrUnknownEpoch), kerr.NotCoordinator, kerr.NotLeaderForPartition},
		{coordinator.ErrNoShard, kerr.NotCoordinator, kerr.NotCoordinator},
		{coordinator.ErrLoading, kerr.CoordinatorLoadInProgress, kerr.CoordinatorLoadInProgress},
		{coordinator.ErrBusy, kerr.CoordinatorLoadInProgress, kerr.CoordinatorLoadInProgress},
		{coordinator.ErrRefused, kerr.CoordinatorNotAvailable, kerr.CoordinatorNotAvailable},
	} {
		if of, event := Of(c.err), OfCoordinator(c.err); of != c.members || event != c.members {
			t.Errorf("%v: members get %v, senders of events %v, want %v", c.err, of, event, c.members)
		}
		if got := OfMarker(c.err); got != c.marker {
			t.Errorf("%v: a marker gets %v, want %v", c.err, got, c.marker)
		}
	}
	// An event that meets another error, such as one of the creation of the topic, is repeated.
	for _, err := range []error{metadata.ErrUnavailable, &controller.Error{Kind: controller.InvalidReplicationFactor}} {
		if got := OfCoordinator(err); got != kerr.CoordinatorNotAvailable {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// Members get the errors of a coordinator, whatever the log behind it reported.
func TestErrorsOfTheLogDoNotReachMembers(t *testing.T) {
	for _, own := range coordinators {
		for _, l := range others {
			if got := Of(fmt.Errorf("%w: append: %w", own.err, l.err)); got != own.code {
				t.Errorf("%v, because of %v: %v", own.err, l.err, got)
			}
		}
	}
	// The coordinator has moved, but its shard does not know it yet.
	moved := fmt.Errorf("%w: %w", coordinator.ErrRefused, fmt.Errorf("%w: %w", coordinator.ErrNotCoordinator, replica.ErrFencedEpoch))
	if got := Of(moved); got != kerr.NotCoordinator {
		t.Errorf("moved: %v", got)
	}
}

// A metadata store that has failed may not know the outcome either.
func TestAFailedStoreIsNoTimeout(t *testing.T) {
	if c := Of(fmt.Errorf("%w: %w", metadata.ErrUnknown, metadata.ErrFailed)); c != kerr.KafkaStorageError {
		t.Errorf("%v", c)
	}
}

// A request may name a hundred thousand partitions that are not there, each with an error.
func TestACodeCostsLittle(t *testing.T) {
	err := fmt.Errorf("t-0: %w", replica.ErrUnknownPartition)
	const n = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		if c := Of(err); c != kerr.UnknownTopicOrPartition {
			t.Fatalf("%v", c)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 64 {
		t.Errorf("the code of an error takes %d bytes", each)
	}
}
