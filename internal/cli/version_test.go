package cli

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionIsThatOfTheLinkerThenOfTheModule(t *testing.T) {
	if got := Version("v1.2.3"); got != "v1.2.3" {
		t.Errorf("the linker's version is v1.2.3, Version returns %s", got)
	}
	for module, want := range map[string]string{"v0.1.0": "v0.1.0", "(devel)": "dev", "": "dev"} {
		if got := moduleVersion(&debug.BuildInfo{Main: debug.Module{Version: module}}); got != want {
			t.Errorf("module version %q: %s, want %s", module, got, want)
		}
	}
}
