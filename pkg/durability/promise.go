package durability

import (
	"fmt"
	"time"
)

// Failure is an event after an acknowledgement that may lose records.
type Failure uint8

const (
	// ProcessCrash ends the leader's process at any moment; its machine keeps running.
	ProcessCrash Failure = iota
	// LeaderPowerLoss cuts the power of the leader's machine, which restarts with the contents of
	// its disk.
	LeaderPowerLoss
	// AllButOneLost removes all members of the ISR but one for good.
	AllButOneLost
)

// Failures returns the failures that promises cover.
func Failures() []Failure { return []Failure{ProcessCrash, LeaderPowerLoss, AllButOneLost} }

// String describes the failure.
func (f Failure) String() string {
	names := []string{"process crash", "power loss of the leader", "loss of all but one ISR member"}
	return nameOf("Failure", names, uint8(f))
}

// Loss is how much acknowledged data a failure may lose.
type Loss uint8

const (
	// LosesNothing means that every acknowledged record is present once, at its offset.
	LosesNothing Loss = iota
	// LosesInterval means that at most the records acknowledged during the profile's Interval and
	// one sync are lost.
	LosesInterval
	// LosesPageCache means that records that the operating system had not written to the disk are
	// lost.
	LosesPageCache
	// LosesUnreplicated means that records that had not reached the next leader are lost.
	LosesUnreplicated
	// NothingPromised means that no acknowledgement was given, so none can be broken.
	NothingPromised
)

// String describes the loss.
func (l Loss) String() string {
	names := []string{
		"nothing acknowledged is lost", "at most the records of the sync interval and one sync are lost",
		"records in the page cache may be lost",
		"records that were not replicated may be lost", "nothing is promised: there is no acknowledgement",
	}
	return nameOf("Loss", names, uint8(l))
}

// Condition is what a Promise may depend on.
type Condition uint8

const (
	// Always means that there is no condition.
	Always Condition = iota
	// LeaderReturns means that the same leader leads again; no other replica was elected or is the
	// only one left.
	LeaderReturns
	// ReplicaKeptPower means that a replica that was in the ISR, and still exists, kept power.
	ReplicaKeptPower
)

// String describes the condition; it is empty for Always.
func (c Condition) String() string {
	return nameOf("Condition", []string{"", "the same leader leads again", "a remaining in-sync replica kept power"}, uint8(c))
}

// Setting holds what a topic's promise depends on besides its profile.
type Setting struct {
	Acks     int16 // of the produce request: 0, 1, or -1 for all
	Replicas int   // of the partition, at least 1
	MinISR   int   // min.insync.replicas, at least 1
}

// copies returns the number of replicas that must have a record before its acknowledgement.
func (s Setting) copies() int {
	switch s.Acks {
	case 0:
		return 0
	case 1:
		return 1
	default:
		return max(1, min(s.MinISR, s.Replicas))
	}
}

// Promise is what a profile promises about acknowledged records under one Setting and one Failure:
// Loss if the condition If holds, otherwise Else. If If is Always, Else equals Loss.
type Promise struct {
	Profile  string
	Setting  Setting
	Failure  Failure
	Loss     Loss
	If       Condition
	Else     Loss
	interval time.Duration
}

// String returns the promise as one sentence without a full stop.
func (p Promise) String() string {
	s := p.words(p.Loss)
	if p.If != Always {
		s += fmt.Sprintf(" if %v; otherwise %s", p.If, p.words(p.Else))
	}
	return s
}

func (p Promise) words(l Loss) string {
	if l == LosesInterval {
		return fmt.Sprintf("at most the records of %v and one sync are lost", p.interval)
	}
	return l.String()
}

// Promise returns what the profile promises. Settings with more copies than min(Replicas, MinISR)
// at the time of the failure only fare better.
func (p Profile) Promise(s Setting, f Failure) Promise {
	pr := Promise{Profile: p.Name, Setting: s, Failure: f, interval: p.Interval}
	pr.Loss, pr.If, pr.Else = p.outcome(s, f)
	if pr.If == Always {
		pr.Else = pr.Loss
	}
	return pr
}

// outcome is the table of promises.
func (p Profile) outcome(s Setting, f Failure) (loss Loss, condition Condition, otherwise Loss) {
	// local is what one replica's disk has lost after a power loss.
	local := LosesNothing
	if p.Ack == Written {
		local = LosesPageCache
		if p.Sync == SyncInterval {
			local = LosesInterval
		}
	}
	switch {
	case s.Acks == 0:
		return NothingPromised, Always, NothingPromised
	case s.Acks == 1 && s.Replicas > 1:
		// Only the leader had to have it, so everything depends on the leader.
		if f != LeaderPowerLoss {
			local = LosesNothing
		}
		return local, LeaderReturns, LosesUnreplicated
	case f == ProcessCrash:
		return LosesNothing, Always, LosesNothing // the kernel has what was written
	case f == AllButOneLost && s.Replicas == 1:
		return LosesNothing, Always, LosesNothing // the only replica is the remaining one
	case local == LosesNothing:
		return LosesNothing, Always, LosesNothing
	case f == LeaderPowerLoss && s.copies() == 1:
		return local, Always, local // the ISR may have been the leader alone
	default:
		return LosesNothing, ReplicaKeptPower, local
	}
}

// Promises returns what the profile promises for every acks value, alone (one replica) and
// replicated (three, two of them in sync), under every failure: the rows of the documentation's
// table.
func (p Profile) Promises() []Promise {
	var rows []Promise
	for _, replicas := range []int{1, 3} {
		for _, acks := range []int16{0, 1, -1} {
			for _, f := range Failures() {
				rows = append(rows, p.Promise(Setting{Acks: acks, Replicas: replicas, MinISR: min(2, replicas)}, f))
			}
		}
	}
	return rows
}
