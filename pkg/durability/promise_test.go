package durability

import (
	"strings"
	"testing"
)

// want is the table of promises with one line for each cell: loss / condition / otherwise.
type want struct {
	loss Loss
	cond Condition
	or   Loss
}

// The rows for one replica: acks=1 and acks=all are the same.
func TestPromisesOfOneReplica(t *testing.T) {
	power := map[string]Loss{
		"sync": LosesNothing, "low": LosesNothing, "medium": LosesNothing, "high": LosesNothing, "ultra": LosesNothing,
		"interval": LosesInterval, "os": LosesPageCache,
	}
	for _, p := range Builtin() {
		for _, acks := range []int16{1, -1} {
			for f, loss := range map[Failure]Loss{ProcessCrash: LosesNothing, LeaderPowerLoss: power[p.Name], AllButOneLost: LosesNothing} {
				check(t, p, Setting{acks, 1, 1}, f, want{loss, Always, loss})
			}
		}
	}
}

func TestPromisesOfThreeReplicas(t *testing.T) {
	var (
		kept     = want{LosesNothing, Always, LosesNothing}
		leader   = want{LosesNothing, LeaderReturns, LosesUnreplicated}
		interval = want{LosesNothing, ReplicaKeptPower, LosesInterval}
		cache    = want{LosesNothing, ReplicaKeptPower, LosesPageCache}
	)
	table := map[string]map[int16][3]want{ // process crash, power loss, all but one
		"sync":     {1: {leader, leader, leader}, -1: {kept, kept, kept}},
		"interval": {1: {leader, {LosesInterval, LeaderReturns, LosesUnreplicated}, leader}, -1: {kept, interval, interval}},
		"os":       {1: {leader, {LosesPageCache, LeaderReturns, LosesUnreplicated}, leader}, -1: {kept, cache, cache}},
	}
	for _, p := range Builtin() {
		row := table[p.Name]
		if p.Ack == Synced {
			row = table["sync"] // all synced profiles make the same promise
		}
		for acks, cells := range row {
			for i, f := range Failures() {
				check(t, p, Setting{acks, 3, 2}, f, cells[i])
			}
		}
	}
}

// With min.insync.replicas=1 the ISR may be the leader alone when acks=all is
// answered, so its page cache may be the only copy.
func TestPromiseOfAcksAllIsAsWeakAsMinISR(t *testing.T) {
	for _, p := range Builtin() {
		loss := p.Promise(Setting{-1, 1, 1}, LeaderPowerLoss).Loss
		check(t, p, Setting{-1, 3, 1}, LeaderPowerLoss, want{loss, Always, loss})
		check(t, p, Setting{-1, 3, 1}, ProcessCrash, want{LosesNothing, Always, LosesNothing})
	}
}

func TestAcksNonePromisesNothing(t *testing.T) {
	for _, p := range Builtin() {
		for _, f := range Failures() {
			check(t, p, Setting{0, 3, 2}, f, want{NothingPromised, Always, NothingPromised})
		}
	}
}

func check(t *testing.T, p Profile, s Setting, f Failure, w want) {
	t.Helper()
	got := p.Promise(s, f)
	if got.Loss != w.loss || got.If != w.cond || got.Else != w.or || got.Profile != p.Name || got.Failure != f || got.Setting != s {
		t.Errorf("%s, %+v, %v: %v", p.Name, s, f, got)
	}
}

func TestPromisesHaveWordsForEveryCell(t *testing.T) {
	for _, p := range Builtin() {
		rows := p.Promises()
		if len(rows) != 2*3*len(Failures()) {
			t.Errorf("%s: %d rows", p.Name, len(rows))
		}
		for _, r := range rows {
			text := r.Failure.String() + ": " + r.String()
			if strings.Contains(text, "(") || strings.Contains(text, "  ") {
				t.Errorf("%s: no words: %q", p.Name, text)
			}
		}
	}
}
