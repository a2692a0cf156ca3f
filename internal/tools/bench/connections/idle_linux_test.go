package connections

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// Idle connections answer at the end, and the memory of the process is read.
func TestIdle(t *testing.T) {
	w := newWorld(t, nil)
	out, err := w.run("idle", "-c", "20", "--rest", "0s", "--server-pid", strconv.Itoa(os.Getpid()), "--json")
	must.OK(t, err)
	var r IdleResult
	must.OK(t, json.Unmarshal([]byte(out), &r))
	if r.Alive != 20 || r.Before < 1<<20 || r.Opened < 1<<20 || r.Rested < 1<<20 || r.Took <= 0 {
		t.Errorf("the result is %+v", r)
	}
	var table bytes.Buffer
	if err := r.Table(&table); err != nil || !strings.Contains(table.String(), "20 answered afterwards") {
		t.Errorf("%v: the table is %q", err, table.String())
	}
}
