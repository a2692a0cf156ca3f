package daemon

import (
	"errors"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

const (
	// memoryShare is the part of the memory there is that the Go heap may take; the
	// rest is for stacks, the kernel's buffers and the page cache.
	memoryShare = 0.8
	// machineShare is the part of a machine's memory that counts as the broker's where
	// no container says so: other programs run there, too.
	machineShare = 5.0 / 8
)

// limitMemory tells the Go runtime how much memory there is, unless GOMEMLIMIT does.
func limitMemory(log *zap.Logger) {
	provider := func() (uint64, error) {
		if n := memoryThere(); n > 0 {
			return uint64(n), nil
		}
		return 0, memlimit.ErrNoLimit
	}
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(provider))
	switch {
	case errors.Is(err, memlimit.ErrNoLimit):
	case err != nil:
		log.Warn("the Go runtime could not be told of the memory there is; set GOMEMLIMIT", zap.Error(err))
	case limit > 0:
		log.Debug("memory limit", zap.Int64("bytes", limit))
	}
}

// memoryThere is how many bytes of memory the broker may use: the container's, or a
// part of the machine's, or what GOMEMLIMIT leaves room for where that is less. 0 if
// that is not known.
func memoryThere() int64 {
	there := int64(math.MaxInt64)
	if limit, err := memlimit.FromCgroup(); err == nil {
		there = int64(min(limit, math.MaxInt64))
	}
	if machine := vfs.SystemMemory(); machine > 0 && there > machine {
		there = int64(machineShare * float64(machine))
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		there = min(there, int64(float64(limit)/memoryShare))
	}
	if there == math.MaxInt64 {
		return 0
	}
	return there
}

// budgets bound what clients and logs may fill with bytes.
type budgets struct {
	Produce    int64 // produce requests
	Connection int64 // those of one connection
	Other      int64 // other requests
	Answers    int64 // records in answers that clients have not read yet
	Parked     int64 // what requests hold that wait: fetches for records, joins for other members
	Deferred   int64 // of each log directory: records that segments do not have yet, and the tail
	Keys       int64 // the keys of a compaction
	Members    int64 // what members of groups have said of themselves, and what is assigned to them
	Sessions   int64 // the partitions of fetch sessions
	Decoded    int64 // the arrays of one decoded request; large ones take turns, so it is no part of the sum
}

const (
	// budgetShare is how much of the memory beyond fixedBytes the budgets may have together.
	// The rest is for what no budget counts, such as connections and indexes, for garbage
	// and for the page cache.
	budgetShare = 0.4
	// fixedBytes is what does not shrink with the memory: the process itself, a thousand
	// connections, one inflated batch and one large request.
	fixedBytes = 24 << 20
	otherBytes = 64 << 20
	// answerShare of the memory is for answers, within bounds: more makes no reader
	// faster but those that are far away.
	answerShare            = 1.0 / 8
	minAnswers, maxAnswers = 32 << 20, 1 << 30
	// parkedShare of the memory is for requests that wait: a consumer takes some 2 KiB, and
	// half a KiB more for each further partition.
	parkedShare          = 1.0 / 16
	minParked, maxParked = 16 << 20, 256 << 20
	// memberShare of the memory is for members, within bounds: a member of a large group
	// takes some 10 kB.
	memberShare            = 1.0 / 16
	minMembers, maxMembers = 16 << 20, 1 << 30
	// sessionShare of the memory is for fetch sessions, within bounds: a partition counts half
	// a KiB, and Kafka's default of 1,000 sessions has 256 of them each on average.
	sessionShare             = 1.0 / 16
	minSessions, maxSessions = 16 << 20, 128 << 20
	// decodedShare of the memory is for one request, within bounds: what is answered to it may
	// take several times that. 4 MiB are 25,000 topics.
	decodedShare           = 1.0 / 16
	minDecoded, maxDecoded = 4 << 20, protocol.MaxCost
	// leastBudget is how far a budget is cut at most.
	leastBudget = 1 << 20
)

// divide makes budgets out of what is configured, for dirs log directories: cut all
// alike where they are too much for the memory there is. 0 is no known memory.
func divide(memory int64, preset durability.ProducePreset, dirs int, keys int64) (wanted, cut budgets) {
	wanted = budgets{Produce: preset.ProduceBytes, Connection: preset.ConnectionBytes, Other: otherBytes, Deferred: preset.DeferredBytes, Keys: keys}
	if memory <= 0 {
		wanted.Decoded = maxDecoded
		wanted.Answers, wanted.Parked, wanted.Members, wanted.Sessions = maxAnswers/4, maxParked/4, maxMembers/4, maxSessions
		return wanted, wanted
	}
	wanted.Answers = min(max(int64(answerShare*float64(memory)), minAnswers), maxAnswers)
	wanted.Parked = min(max(int64(parkedShare*float64(memory)), minParked), maxParked)
	wanted.Members = min(max(int64(memberShare*float64(memory)), minMembers), maxMembers)
	wanted.Sessions = min(max(int64(sessionShare*float64(memory)), minSessions), maxSessions)
	wanted.Decoded = min(max(int64(decodedShare*float64(memory)), minDecoded), maxDecoded)
	cut = wanted
	if part := spendable(memory) / float64(wanted.sum(dirs)); part < 1 {
		for _, n := range []*int64{&cut.Produce, &cut.Connection, &cut.Other, &cut.Answers, &cut.Parked, &cut.Deferred, &cut.Keys, &cut.Members, &cut.Sessions} {
			*n = min(*n, max(int64(part*float64(*n)), leastBudget))
		}
	}
	return wanted, cut
}

// spendable is how many bytes the budgets may have together.
func spendable(memory int64) float64 { return budgetShare * float64(max(memory-fixedBytes, 0)) }

// sum is what all of them may fill; a connection's are the broker's. network has half of
// Produce and of Other beside them for requests that are arriving, half of Other for
// answers that are not fetches', and a quarter of it for read buffers. broker has a quarter of
// Parked in addition, for requests that are too large to wait.
func (b budgets) sum(dirs int) int64 {
	return b.Produce*3/2 + b.Other*9/4 + b.Answers + b.Parked*5/4 + int64(dirs)*b.Deferred + b.Keys + b.Members + b.Sessions
}
