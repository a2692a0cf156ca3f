package lint

import (
	"slices"
	"testing"
)

// The switches that disable a durability rule exist only with the tag breakrules: an ordinary build
// uses broken_off.go, in which their type is empty, as that package's own test checks.
func TestOrdinaryBuildHasNoBrokenRules(t *testing.T) {
	all, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range all {
		if slices.Contains(p.GoFiles, "broken_on.go") {
			t.Errorf("%s: an ordinary build has broken_on.go", p.name())
		}
		if slices.Contains(p.GoFiles, "broken_off.go") {
			found++
		}
	}
	if found != 7 {
		t.Errorf("%d packages have a broken_off.go, want 7: storage, journal, progress, stream, election, raftstore and txn", found)
	}
}
