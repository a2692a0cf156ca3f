package system

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/hostile"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// A client can't tell by the time of answers which users exist. CHRONIK_TIMING is how many logins
// are tried as users that exist, and as others, for each answer.
func TestUsersCannotBeTimed(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("CHRONIK_TIMING"))
	if n == 0 {
		t.Skip("takes minutes and measures times of answers: make timing")
	}
	g := &hostile.Guesser{}
	var lines []string
	for i := range 20 {
		known := fmt.Sprintf("user-%04d", 1+i*37)
		g.Known, g.Unknown = append(g.Known, known), append(g.Unknown, fmt.Sprintf("user-%04d", 2+i*37))
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			lines = append(lines, known+":"+mechanism+":the right password\n")
		}
	}
	users := filepath.Join(t.TempDir(), "users")
	must.OK(t, os.WriteFile(users, []byte(strings.Join(lines, "")), 0o600))
	p, err := start(t.TempDir(), nil, "--listen", "127.0.0.1:0", "--admin-listen", "off", "--set", "sasl=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
		"--set", "bootstrap.users="+users, "--set", "connection.failed.authentication.delay.ms=0")
	must.OK(t, err)
	defer func() { _ = p.end(syscall.SIGKILL) }()
	g.Addr = p.Addr
	guesses, err := g.Guesses(t.Context(), n)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.logged())
	}
	for _, x := range guesses {
		t.Logf("%-12s %-42s known %8v, unknown %8v, t = %.1f", x.Name, x.Answer, x.Known, x.Unknown, x.T)
		if math.Abs(x.T) >= hostile.TooDifferent {
			t.Errorf("%s: the answers take a different time for users that exist: t = %.1f", x.Name, x.T)
		}
	}
}
