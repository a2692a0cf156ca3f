// Package memory divides the memory that a broker may use: it finds how much there is, limits the
// Go heap to a share of it, and derives the budgets of clients and logs.
//
// Budgets that are too large for the memory are reduced by one factor, but never below 1 MiB. It
// computes sizes only, and does not know what is in use. Package bufpool and the owners of the
// budgets count that.
package memory

import (
	"errors"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/vfs"
)

const (
	// memoryShare is the share of the available memory that the Go heap may use; the rest is for
	// stacks, the kernel's buffers and the page cache.
	memoryShare = 0.8
	// machineShare is the share of a machine's memory that counts as available if no container sets
	// a limit: other programs also run there.
	machineShare = 5.0 / 8
)

// Limit sets the Go runtime's memory limit from the available memory, unless GOMEMLIMIT is
// set.
func Limit(log *zap.Logger) {
	provider := func() (uint64, error) {
		if n := Available(); n > 0 {
			return uint64(n), nil
		}
		return 0, memlimit.ErrNoLimit
	}
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(provider))
	switch {
	case errors.Is(err, memlimit.ErrNoLimit):
	case err != nil:
		log.Warn("cannot set the memory limit of the Go runtime; set GOMEMLIMIT", zap.Error(err))
	case limit > 0:
		log.Debug("memory limit", zap.Int64("bytes", limit))
	}
}

// Available returns how many bytes of memory the broker may use: the container's limit, or a
// share of the machine's memory, or what GOMEMLIMIT implies if that is less. It returns 0 if none
// is known.
func Available() int64 {
	available := int64(math.MaxInt64)
	if limit, err := memlimit.FromCgroup(); err == nil {
		available = int64(min(limit, math.MaxInt64))
	}
	if machine := vfs.SystemMemory(); machine > 0 && available > machine {
		available = int64(machineShare * float64(machine))
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		available = min(available, int64(float64(limit)/memoryShare))
	}
	if available == math.MaxInt64 {
		return 0
	}
	return available
}

// connectionBytes is what an idle connection holds: 13 KiB without TLS, and some 22 KiB with it.
const connectionBytes = 24 << 10

// Connections returns how many connections may be open, so that idle ones take at most a quarter of
// the memory, in bytes; any number if that is not known.
func Connections(memory int64) int32 {
	if memory <= 0 {
		return math.MaxInt32
	}
	return int32(min(max(memory/4/connectionBytes, 1), math.MaxInt32))
}

// Budgets limit, in bytes, the memory that clients and logs can fill. docs/configuration.md
// ("Memory") has what happens if one is used up. The names in backticks are the values of the label
// budget of chronik_budget_limit_bytes; docs/requests.md uses them.
type Budgets struct {
	Produce    int64 // produce requests: `produce`; half as much again is `produce_arriving`
	Connection int64 // produce requests of one connection
	Other      int64 // other requests: `other`; `other_arriving` and `unread_answers` are half of it, `read_buffers` a quarter
	Answers    int64 // records in responses that clients have not read yet: `answers`
	Parked     int64 // held by requests that wait: fetches for records, joins for other members: `parked`
	Deferred   int64 // per log directory: records that are not in segments yet, and the tail
	Keys       int64 // the keys of a compaction
	// Members is for the members and offsets of groups and for transactional ids, `members`. A
	// quarter of it is for the partitions of open transactions, `transactions`, an eighth for the
	// states of share groups, `share_states`, and an eighth for what leaders have of them,
	// `shares`.
	Members  int64
	Sessions int64 // the partitions of fetch sessions
	// Decoded is for the arrays of one decoded request. Only a few large requests are decoded at a
	// time, so the sum leaves it out.
	Decoded int64
}

const (
	// budgetShare is the share of the memory beyond fixedBytes that all budgets may have together.
	// The rest is for uncounted memory, such as connections and indexes, for garbage and for the
	// page cache.
	budgetShare = 0.4
	// fixedBytes does not shrink with the memory: the process itself, a thousand connections, one
	// decompressed batch and one large request.
	fixedBytes = 24 << 20
	otherBytes = 64 << 20
	// answerShare of the memory is for responses, within bounds: more speeds up only readers that
	// are far away.
	answerShare            = 1.0 / 8
	minAnswers, maxAnswers = 32 << 20, 1 << 30
	// parkedShare of the memory is for requests that wait: a consumer needs about 2 KiB, and half a
	// KiB more for each further partition.
	parkedShare          = 1.0 / 16
	minParked, maxParked = 16 << 20, 256 << 20
	// memberShare of the memory is for members and offsets, within bounds: a member of a large
	// group needs some 10 kB, and an offset 130 bytes and its metadata.
	memberShare            = 1.0 / 8
	minMembers, maxMembers = 32 << 20, 1 << 30
	// sessionShare of the memory is for fetch sessions, within bounds: a partition counts as half a
	// KiB, and 128 MiB give each of Kafka's default of 1,000 sessions 256 partitions on average.
	sessionShare             = 1.0 / 16
	minSessions, maxSessions = 16 << 20, 128 << 20
	// decodedShare of the memory is for one request, within bounds: its response may need several
	// times as much. 4 MiB are 25,000 topics.
	decodedShare           = 1.0 / 16
	minDecoded, maxDecoded = 4 << 20, protocol.MaxCost
	// leastBudget is the least value that a budget is reduced to.
	leastBudget = 1 << 20
)

// Divide derives the budgets from the configuration, for dirs log directories. It reduces all of
// them by the same factor if they exceed the memory; memory 0 means that it is unknown.
func Divide(memory int64, profile configdef.ProduceProfile, dirs int, keys int64) (wanted, cut Budgets) {
	wanted = Budgets{
		Produce:    profile.ProduceBytes,
		Connection: profile.ConnectionBytes,
		Other:      otherBytes,
		Deferred:   profile.DeferredBytes,
		Keys:       keys,
	}
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
	if part := spendable(memory) / float64(wanted.Sum(dirs)); part < 1 {
		for _, n := range []*int64{&cut.Produce, &cut.Connection, &cut.Other, &cut.Answers, &cut.Parked, &cut.Deferred,
			&cut.Keys, &cut.Members, &cut.Sessions} {
			*n = min(*n, max(int64(part*float64(*n)), leastBudget))
		}
	}
	return wanted, cut
}

// Transactions returns the part of Members that is for the partitions of open transactions.
func (b Budgets) Transactions() int64 { return b.Members / 4 }

// ShareStates returns the part of Members that is for the states of share groups.
func (b Budgets) ShareStates() int64 { return b.Members / 8 }

// Shares returns the part of Members that is for share partitions of leaders, and share sessions.
func (b Budgets) Shares() int64 { return b.Members / 8 }

// Groups returns what is left of Members, for members and offsets of groups and transactional ids.
func (b Budgets) Groups() int64 { return b.Members - b.Transactions() - b.ShareStates() - b.Shares() }

// spendable returns how many bytes the budgets may have together.
func spendable(memory int64) float64 { return budgetShare * float64(max(memory-fixedBytes, 0)) }

// Sum returns how much all budgets together can fill; those of a connection are part of the
// broker's. In addition to Produce and Other, network has half of each for arriving requests, half
// of Other for responses other than fetches, and a quarter of Other for read buffers. In addition
// to Parked, broker has a quarter of it for requests that are too large to park.
func (b Budgets) Sum(dirs int) int64 {
	return b.Produce*3/2 + b.Other*9/4 + b.Answers + b.Parked*5/4 + int64(dirs)*b.Deferred + b.Keys + b.Members + b.Sessions
}
