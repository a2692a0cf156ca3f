package brokers

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/race"
)

// Three brokers in memory are a small heap with much garbage: a third of the time went into its
// collection. Virtual time stands while a goroutine runs, so that a second processor has little to
// run: to pass goroutines to it and back took another third, and other packages can use it. The
// race detector sees more if goroutines run at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if run := flag.Lookup("test.run").Value; race.Detector && testing.Short() && run.String() == "" {
		_ = run.Set("^(" + strings.Join(raced, "|") + ")$") // a regular expression
	}
	debug.SetGCPercent(400)
	if !race.Detector {
		runtime.GOMAXPROCS(1)
	}
	os.Exit(m.Run())
}

// raced are the tests that pass most of the paths of a broker: walks through random faults, and one
// test for each feature that these do not use. With -short, the race detector watches no others.
var raced = []string{ //nolint:gochecknoglobals // a constant
	"TestRandomFaults", "TestRandomFaultsOfTiers", "TestThePowerFailsAtAnyCall", "TestThePowerFailsInATransaction",
	"TestLogsMoveBetweenDirectories", "TestSnapshotsHaveTheCausesOfRecords", "TestDamagedLogDirectories",
	"TestStatesOfShareGroupsSurvive", "TestAShareGroupFinishesItsTopic", "TestDeadLettersAreCopiedOnce",
	"TestLostVotersAreRecovered", "TestABrokerBecomesTheFirstOfThree", "TestAWitness", "TestAMetadataDiskThatHangs",
	"TestConsumersReadInTheirRack", "TestEveryBrokerReportsTheFaultsOfAll",
}

func TestTheNamesOfRacedTestsExist(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	must.OK(t, err)
	var text strings.Builder
	for _, name := range files {
		b, err := os.ReadFile(name)
		must.OK(t, err)
		text.Write(b)
	}
	for _, name := range raced {
		if !strings.Contains(text.String(), "\nfunc "+name+"(t *testing.T)") {
			t.Errorf("there is no %s", name)
		}
	}
}
