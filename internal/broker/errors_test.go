package broker

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
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// declared lists the exported errors that a package below declares.
func declared(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
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

// A log that changes its directory is served again within moments: no disk has failed.
func TestAMovingLogIsLedElsewhereForAMoment(t *testing.T) {
	if c := code(fmt.Errorf("append to t-0: %w", storage.ErrMoving)); c != kerr.NotLeaderForPartition.Code {
		t.Errorf("code %d", c)
	}
}

// I2: every error of a log becomes an error of the protocol.
func TestEveryErrorOfTheLogHasACode(t *testing.T) {
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
		"storage.ErrCorrupt": storage.ErrCorrupt, "storage.ErrClosed": storage.ErrClosed,
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
	}
	never := map[string]string{ // no request causes them
		"storage.ErrExists": "Create",
		"storage.ErrGap":    "a follower's append",

		"replica.ErrNotReplica": "a follower's subscription",
		"replica.ErrDiverged":   "a follower's truncation",
		"storage.ErrLocked":     "Open",

		"storage.ErrMoveCanceled": "the goroutine that moves logs",
		"storage.ErrForeign":      "Open",

		"storage.ErrNotHeld": "the upload of a snapshot",
		"replica.ErrVoid":    "the upload of a snapshot",
	}
	for _, dir := range []string{"replica", "storage", "storage/producers"} {
		for _, name := range declared(t, dir) {
			err, ok := known[name]
			if !ok {
				if never[name] == "" {
					t.Errorf("%s is new: give it a code, or say who meets it instead of requests", name)
				}
				continue
			}
			wrapped := fmt.Errorf("append to t-0: %w", fmt.Errorf("%w: because", err))
			if c := code(wrapped); c == 0 || c == kerr.UnknownServerError.Code {
				t.Errorf("%s has code %d", name, c)
			}
		}
	}
}

func TestEveryKindOfRefusalHasACode(t *testing.T) {
	for k := record.Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		if c := code(fmt.Errorf("x: %w", &record.Error{Kind: k})); c == 0 || c == kerr.UnknownServerError.Code {
			t.Errorf("a batch that is %s has code %d", k, c)
		}
	}
	// Brokers get these, as answers to their registrations and heartbeats; clients never do.
	ofBrokers := []controller.Kind{controller.InconsistentClusterID, controller.UnsupportedVersion, controller.DuplicateBroker,
		controller.StaleBrokerEpoch, controller.UnknownMember}
	for k := controller.InvalidTopic; k < controller.EndOfKinds; k++ {
		c := code(&controller.Error{Kind: k})
		if has := c != kerr.UnknownServerError.Code; c == 0 || has == slices.Contains(ofBrokers, k) {
			t.Errorf("kind %d of the controller has code %d", k, c)
		}
	}
}

func TestAnUnknownErrorIsNeverSuccess(t *testing.T) {
	for _, err := range []error{
		errors.New("an unexpected error"), &record.Error{}, &record.Error{Kind: 200}, &controller.Error{}, &kerr.Error{},
		protocolErrorf(&kerr.Error{}, "code 0"), errors.Join(errors.New("a"), errors.New("b")), record.ErrShort,
	} {
		if c := code(err); c == 0 {
			t.Errorf("%#v has code 0", err)
		}
	}
	if c := code(nil); c != 0 {
		t.Errorf("no error has code %d", c)
	}
}

func TestATableLineIsReachable(t *testing.T) {
	for _, line := range codes {
		if got := kafkaError(line.err); got != line.code {
			t.Errorf("%v: %v, want %v: an earlier line hides it", line.err, got, line.code)
		}
	}
}

// A request may name a hundred thousand partitions that are not there, each with an error.
func TestACodeCostsLittle(t *testing.T) {
	err := fmt.Errorf("t-0: %w", replica.ErrUnknownPartition)
	const n = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		if c := code(err); c != kerr.UnknownTopicOrPartition.Code {
			t.Fatalf("code %d", c)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 64 {
		t.Errorf("the code of an error takes %d bytes", each)
	}
}
